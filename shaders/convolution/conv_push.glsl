// Push constants of convolution/conv.comp and convolution/shared.comp, whose weights are in blocks of
// vec4s of output channels of one group.

layout(push_constant) uniform P {
    int pixels, tiles, total;      // output pixels of an image, tiles of an image, workgroups
    int c4, cg4, m4, mg4, blocks;  // vec4s of channels: in, in of a group, out, out of a group; blocks of an image
    int group_blocks;              // blocks of a group
    int channels;                  // output channels
    int bias;                      // where the bias starts
    int in_d, in_h, in_w, out_h, out_w;
    int kernel_d, kernel_h, kernel_w;
    int stride_d, stride_h, stride_w;
    int dilation_d, dilation_h, dilation_w;
    int pad_d, pad_h, pad_w;
} p;
