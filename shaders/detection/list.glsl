// Lists of boxes on their way through sorting and suppression: two vec4s a box,
// score, label, x1, y1; x2, y2, area, 0. An absent box has the score NONE; in a sorted list it ends it.

#define NONE uintBitsToFloat(0xff7fffffu)  // the lowest finite number

bool is_none(float score) { return !(score > NONE); }

vec4 box_head(float score, float label, vec4 box) { return vec4(score, label, box.xy); }
vec4 box_tail(vec4 box, float extra) {
    vec2 sides = box.zw - box.xy + extra;
    return vec4(box.zw, sides.x * sides.y, 0.0);
}
vec4 box_tail(vec4 box) { return vec4(box.zw, (box.z - box.x) * (box.w - box.y), 0.0); }
