#version 450
#pragma vknn variants ACCESS=0,1,2
#pragma vknn variants ACCESS=0,1,2 HALF=1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
#include "common/mathf.glsl"
#include "detection/list.glsl"

// One box of a YOLO feature map a lane, as a row of a list. Below the threshold its score is NONE and its
// row is not written.

INPUT1F(0, x);
INPUT1S(1, anchors);  // width / net width, height / net height for each box of a cell
OUTPUT1S(2, scores);
OUTPUT4S(3, rows);

layout(constant_id = 10) const int C4 = 0;
layout(constant_id = 11) const int SOFTMAX = 0;  // class scores go through a softmax

layout(push_constant) uniform P {
    int boxes;   // boxes of a cell
    int classes;
    int width;
    int height;
    int first;   // number of this map's first box
    float threshold;
} p;

int place(int channel, int cell) {
    int cells = p.width * p.height;
    if (C4 != 0) return ((channel >> 2) * cells + cell) * 4 + (channel & 3);
    return channel * cells + cell;
}

void main() {
    int cells = p.width * p.height;
    int at = linear_lane();
    if (at >= p.boxes * cells) return;
    int box = at / cells, cell = at % cells;
    int channel = box * (5 + p.classes);

    int label = 0;
    float best = LOAD1(x, place(channel + 5, cell));
    for (int c = 1; c < p.classes; c++) {
        float score = LOAD1(x, place(channel + 5 + c, cell));
        if (score > best || (isnan(score) && !isnan(best))) {  // NaN is the largest
            best = score;
            label = c;
        }
    }
    float objectness = LOAD1(x, place(channel + 4, cell));
    vec4 e = m_exp(vec4(-objectness, -best, LOAD1(x, place(channel + 2, cell)),
                        LOAD1(x, place(channel + 3, cell))));
    float confidence = 1.0 / (1.0 + e.x * (1.0 + e.y));
    if (SOFTMAX != 0) {
        float sum = 0.0;
        for (int c = 0; c < p.classes; c += 4) {
            vec4 v = vec4(best);
            for (int i = 0; i < 4; i++) v[i] = LOAD1(x, place(channel + 5 + min(c + i, p.classes - 1), cell));
            vec4 part = m_exp(v - best);
            for (int i = 0; i < 4; i++) sum += c + i < p.classes ? part[i] : 0.0;
        }
        confidence = 1.0 / (1.0 + e.x) / sum;
    }
    bool taken = confidence >= p.threshold;
    STORE1(scores, p.first + at, taken ? confidence : NONE);
    if (!taken) return;

    vec2 xy = vec2(LOAD1(x, place(channel, cell)), LOAD1(x, place(channel + 1, cell)));
    vec2 size = vec2(p.width, p.height);
    vec2 centre = (vec2(cell % p.width, cell / p.width) + m_sigmoid(xy.xyxy).xy) / size;
    vec2 reach = e.zw * vec2(LOAD1(anchors, 4 * box), LOAD1(anchors, 4 * box + 1))
        / vec2(LOAD1(anchors, 4 * box + 2), LOAD1(anchors, 4 * box + 3)) * 0.5;
    vec4 corners = vec4(centre - reach, centre + reach);
    STORE4(rows, 2 * (p.first + at), box_head(confidence, float(label + 1), corners));
    STORE4(rows, 2 * (p.first + at) + 1, box_tail(corners));
}
