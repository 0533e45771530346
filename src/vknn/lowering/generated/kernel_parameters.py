"""Push constants and specialization constants by kernel.

Written by tools/kernel_parameters.py. Each entry: the members of the push-constant block in order
("[n]" for arrays, ":float" for floats, ":either" where it depends on the variant), and the
specialization constants as NAME=id; "?" marks those that not every variant declares or that
shaders/common declares.
"""

KERNELS: dict[str, tuple[str, str]] = {
    "attention/linear": (
        "count chunk first steps all_steps groups sharing depth width rates corrected begins "
        "ends k_at v_at state_at decay_at beta_at scale:float",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "attention/rotary": (
        "count chunk pairs rows per_entry entry_step interleaved",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "attention/softmax": (
        "rows count width queries heads mask_first batch_step head_step query_step key_step",
        "LANES=10 ROWS=11 EMPTY_ZERO=12 BYTES_UNSIGNED?=98",
    ),
    "attention/stream": (
        "queries keys width4 value_width4 width value_width sharing scale:float q_batch "
        "q_head q_row k_batch k_head k_row v_batch v_head v_row y_batch y_head y_row "
        "mask_batch mask_head mask_query mask_key",
        "LANES_V=10 COLS=11 ROWS=12 EMPTY_ZERO=13 CHUNK=14 WHOLE=15 ONE_CHUNK=16 "
        "BYTES_UNSIGNED?=98",
    ),
    "bits/binary": (
        "count chunk elements spatial blocks channels size[6] stride_x[6] stride_w[6]",
        "KIND=10 WIDTH=11 WRAP=12 PADDING_LANES=14 RANK=16 DIRECT_X=17 DIRECT_W=18 SPLAT_X=19 "
        "SPLAT_W=20 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "casting/bit_cast": (
        "count chunk",
        "FROM=10 TO=11 SIGNED=12 IS_BOOL=13 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "chain/expanded": (
        "tiles_w tiles total c4 m4 blocks channels in_h in_w out_h out_w stride_h stride_w "
        "dilation_h dilation_w pad_h pad_w bias depthwise depthwise_bias",
        "TN=10 TM=11 STEPS=13 TILE_H=14 TILE_W=15 FIELD_H=16 FIELD_W=17 KERNEL_H=18 "
        "KERNEL_W=19 ROUNDS=20 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 "
        "ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 "
        "ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 "
        "ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 "
        "ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 "
        "ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "chain/gate": (
        "c4 hidden4 hidden m4 channels pixels columns a b b_bias",
        "LANES=10 INPUTS=11 HIDDEN=12 PIXEL_LANES=13 STEPS=14 ROW_A=15 ROW_B=16 "
        "BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 "
        "ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 "
        "ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 "
        "ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 "
        "ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "chain/head": (
        "c4 channels_in m4 channels pixels bias",
        "LANES=10 INPUTS=11 PIXEL_LANES=12 LOGARITHM=13 ACTIVATES=14 COLUMNS=15 STEPS=16 "
        "BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 "
        "ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 "
        "ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 "
        "ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 "
        "ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "chain/inverted": (
        "tiles_w tiles total slices middle channels in_h in_w out_h out_w pad_h pad_w "
        "first_bias depthwise depthwise_bias last last_bias one",
        "LANES=10 SLICE=11 X4=12 M4=13 TILE_H=14 TILE_W=15 KERNEL_H=16 KERNEL_W=17 "
        "STRIDE_H=18 STRIDE_W=19 DILATION_H=20 DILATION_W=21 FIRST_PIXELS=22 FIRST_COLS=23 "
        "STEPS=24 AHEAD=25 PIXELS=26 COLS=27 PARTS=28 LAST_AHEAD=29 BY_ROWS=30 PLANE=31 "
        "BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 "
        "ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 "
        "ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 "
        "ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 "
        "ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "chain/separable": (
        "pixels tiles total c4 m4 blocks channels_in channels in_h in_w out_w stride_h "
        "stride_w dilation_h dilation_w pad_h pad_w bias depthwise depthwise_bias",
        "ROWS=10 COLS=11 LANES_M=12 LANES_N=13 DEPTH=14 A_STRIDE=15 B_STRIDE=16 KERNEL_H=17 "
        "KERNEL_W=18 AHEAD=19 MATRIX_M?=20 MATRIX_N?=21 MATRIX_K?=22 MATRICES_M?=23 "
        "MATRICES_N?=24 WHOLE=26 COLUMNS_ALONG_K?=27 COLUMNS_IN_MEMORY?=28 BY_ROWS=31 "
        "BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 "
        "ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 "
        "ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 "
        "ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 "
        "ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "convolution/col2im": (
        "count chunk out_h out_w rows columns kernel_h kernel_w stride_h stride_w pad_h pad_w "
        "dilation_h dilation_w",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "convolution/conv": (
        "pixels tiles total c4 cg4 m4 mg4 blocks group_blocks channels bias in_d in_h in_w "
        "out_h out_w kernel_d kernel_h kernel_w stride_d stride_h stride_w dilation_d "
        "dilation_h dilation_w pad_d pad_h pad_w",
        "TN=10 TM=11 AXES=12 STEPS?=13 PARTS?=14 PART_LANES?=15 PADDING?=16 JOIN?=20 "
        "ROUNDING?=21 SIGN?=22 FOLDED?=23 OTHER_UNSIGNED?=24 MIXED?=25 CENTRE?=26 "
        "WEIGHT_BITS?=27 UNIT:float?=28 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 "
        "ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 "
        "ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 "
        "ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 "
        "ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 "
        "ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "convolution/conv_transpose": (
        "total tiles c4 span channels group_in group_out bias in_d in_h in_w out_d out_h "
        "out_w kernel_d kernel_h kernel_w stride_d stride_h stride_w pad_d pad_h pad_w step_d "
        "step_h step_w reach_d reach_h reach_w inverse_d inverse_h inverse_w",
        "TN=10 TM=11 AXES=12 AGAIN?=13 JOIN?=20 ROUNDING?=21 SIGN?=22 FOLDED?=23 "
        "BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 "
        "ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 "
        "ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 "
        "ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 "
        "ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "convolution/conv_transpose_depthwise": (
        "total tiles c4 channels bias in_d in_h in_w out_d out_h out_w kernel_d kernel_h "
        "kernel_w stride_d stride_h stride_w pad_d pad_h pad_w step_d step_h step_w reach_d "
        "reach_h reach_w inverse_d inverse_h inverse_w",
        "TX=10 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 "
        "ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 "
        "ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 "
        "ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 "
        "ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 "
        "ep_mode_5?=123",
    ),
    "convolution/cooperative_bytes": (
        "pixels tiles total c4 cg4 m4 mg4 blocks group_blocks channels bias in_d in_h in_w "
        "out_h out_w kernel_d kernel_h kernel_w stride_d stride_h stride_w dilation_d "
        "dilation_h dilation_w pad_d pad_h pad_w",
        "BLOCK_M=10 BLOCK_N=11 AXES=12 DEPTH=13 LANES=14 MATRICES_M=15 MATRICES_N=16 JOIN=20 "
        "ROUNDING=21 SIGN=22 FOLDED=23 OTHER_UNSIGNED?=24 MATRIX_M=30 MATRIX_N=31 MATRIX_K=32 "
        "BYTES_UNSIGNED?=98",
    ),
    "convolution/deform_sample": (
        "total pixels run first plane image c4 channels offset_group_channels offset_groups "
        "taps in_h in_w out_w kernel_w stride_h stride_w dilation_h dilation_w pad_h pad_w",
        "MASKED=10 MIXED=11 CLAMPED=12 BYTES_UNSIGNED?=98",
    ),
    "convolution/depthwise": (
        "total tiles c4 channels in_h in_w out_h out_w kernel_h stride_h dilation_h pad_h "
        "pad_w bias in_d out_d kernel_d stride_d dilation_d pad_d",
        "TX=10 KERNEL=11 STRIDE=12 DILATION=13 AXES=14 MULTIPLIER?=15 JOIN?=20 ROUNDING?=21 "
        "SIGN?=22 FOLDED?=23 OTHER_UNSIGNED?=24 WEIGHT_BITS?=27 UNIT:float?=28 "
        "BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 "
        "ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 "
        "ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 "
        "ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 "
        "ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "convolution/general": (
        "pixels total c4 m4 channels group_in group_out in_d in_h in_w out_h out_w kernel_d "
        "kernel_h kernel_w stride_d stride_h stride_w dilation_d dilation_h dilation_w pad_d "
        "pad_h pad_w bias first count",
        "HAS_BIAS=10 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 "
        "ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 "
        "ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 "
        "ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 "
        "ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 "
        "ep_mode_5?=123",
    ),
    "convolution/grouped": (
        "total tiles c4 span channels group_in group_out bias in_d in_h in_w out_d out_h "
        "out_w kernel_d kernel_h kernel_w stride_d stride_h stride_w pad_d pad_h pad_w "
        "dilation_d dilation_h dilation_w plane shift",
        "TN=10 TM=11 AXES=12 AGAIN?=13 JOIN?=20 ROUNDING?=21 SIGN?=22 FOLDED?=23 "
        "WEIGHT_BITS?=27 UNIT:float?=28 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 "
        "ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 "
        "ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 "
        "ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 "
        "ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 "
        "ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "convolution/im2col": (
        "count chunk elements in_h in_w out_h out_w kernel_h kernel_w stride_h stride_w pad_h "
        "pad_w dilation_h dilation_w value:either",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "convolution/pack_span": (
        "weights total taps c4 span channels_in channels group_in group_out",
        "TM=10 HAS_BIAS=11 TRANSPOSED=12 DEPTHWISE=13 BYTES_UNSIGNED?=98",
    ),
    "convolution/pack_weights": (
        "weights total group_blocks group_in group_out in4 taps",
        "TM=10 HAS_BIAS=11 BYTES_UNSIGNED?=98",
    ),
    "convolution/shared": (
        "pixels tiles total c4 cg4 m4 mg4 blocks group_blocks channels bias in_d in_h in_w "
        "out_h out_w kernel_d kernel_h kernel_w stride_d stride_h stride_w dilation_d "
        "dilation_h dilation_w pad_d pad_h pad_w",
        "ROWS=10 COLS=11 LANES_M=12 LANES_N=13 DEPTH=14 A_STRIDE=15 B_STRIDE=16 AXES=17 "
        "WRAPS=18 AHEAD=19 MATRIX_M?=20 MATRIX_N?=21 MATRIX_K?=22 MATRICES_M?=23 "
        "MATRICES_N?=24 TAPS_W=25 WHOLE=26 COLUMNS_ALONG_K?=27 COLUMNS_IN_MEMORY?=28 "
        "TAP_ROW=29 OUTSIDE=30 ONE_ROUND=31 K_PARTS?=33 BYTES_UNSIGNED?=98 ep_code_0?=100 "
        "ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 "
        "ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 "
        "ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 "
        "ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 "
        "ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "convolution/winograd_input": (
        "total tiles tiles_image tiles_w c4 in_h in_w pad_h pad_w place_step",
        "HELD?=10 BYTES_UNSIGNED?=98",
    ),
    "convolution/winograd_output": (
        "total tiles tiles_image tiles_w m4 out_h out_w channels place_step",
        "HELD?=10 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 "
        "ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 "
        "ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 "
        "ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 "
        "ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 "
        "ep_mode_5?=123",
    ),
    "convolution/winograd_product": (
        "total chunks blocks tiles c4 m4 v_step product_step",
        "TN=10 TM=11 ROUND?=12 BYTES_UNSIGNED?=98",
    ),
    "detection/anchor_decode": (
        "images anchor_count width height stride:float extra:float coordinate_scale:float "
        "size_scale:float",
        "C4=10 SWAPPED=11 CLIP_ANCHORS=12 CLIPPED=13 WHOLE=14 BYTES_UNSIGNED?=98",
    ),
    "detection/anchor_rows": (
        "images most limit",
        "FORM=10 SWAPPED=11 CLIPPED=12 NORMALIZED=13 MARKED=14 BYTES_UNSIGNED?=98",
    ),
    "detection/anchor_scores": (
        "images anchor_count width height stride last_scale min_size:float extra:float",
        "C4=10 DROPPED=11 BYTES_UNSIGNED?=98",
    ),
    "detection/greedy": (
        "groups classes count most first last iou:float score:float decay:float",
        "LANES=10 SOFT=11 IOU_INCLUSIVE=12 SCORE_INCLUSIVE=13 BYTES_UNSIGNED?=98",
    ),
    "detection/greedy_rows": (
        "count chunk width most",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "detection/heap": (
        "groups count stride most first last",
        "BYTES_UNSIGNED?=98",
    ),
    "detection/heap_rows": (
        "groups count stride most",
        "BYTES_UNSIGNED?=98",
    ),
    "detection/heap_start": (
        "groups most",
        "BYTES_UNSIGNED?=98",
    ),
    "detection/image_decode": (
        "images lists count own_priors width height",
        "CORNERS=10 ENCODED=11 REFINED=12 CLIPPED=13 BYTES_UNSIGNED?=98",
    ),
    "detection/image_places": (
        "images classes most limit",
        "LABELLED=10 BYTES_UNSIGNED?=98",
    ),
    "detection/image_rows": (
        "images classes most limit rows",
        "LABELLED=10 CLIPPED=11 BYTES_UNSIGNED?=98",
    ),
    "detection/image_scores": (
        "images used count stride classes background threshold:float",
        "BEST=10 BYTES_UNSIGNED?=98",
    ),
    "detection/merge": (
        "groups most limit",
        "FORM=10 BYTES_UNSIGNED?=98",
    ),
    "detection/prior_box": (
        "count chunk boxes columns step_y:float step_x:float first_y:float first_x:float "
        "image_h:float image_w:float variances[4]:float",
        "CLIP=10 VARIANCES=11 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "detection/proposal_decode": (
        "anchor_count width height stride:float",
        "C4=10 BYTES_UNSIGNED?=98",
    ),
    "detection/proposal_scores": (
        "anchor_count width height min_size:float",
        "C4=10 BYTES_UNSIGNED?=98",
    ),
    "detection/rank": (
        "groups count stride most skipped classes lists",
        "ROWS=10 LAST_FIRST=11 BYTES_UNSIGNED?=98",
    ),
    "detection/ssd_decode": (
        "count variances[4]:float",
        "OWN_VARIANCES=10 BYTES_UNSIGNED?=98",
    ),
    "detection/ssd_scores": (
        "groups count stride classes background threshold:float",
        "CLASS_MAJOR=10 BYTES_UNSIGNED?=98",
    ),
    "detection/suppress": (
        "groups most limit first last threshold:float extra:float",
        "PRODUCTS=10 LABELLED=11 BYTES_UNSIGNED?=98",
    ),
    "detection/yolo_decode": (
        "boxes classes width height first threshold:float",
        "C4=10 SOFTMAX=11 BYTES_UNSIGNED?=98",
    ),
    "elementwise/binary": (
        "count chunk elements spatial blocks channels size[6] stride_x[6] stride_w[6]",
        "CODE=10 LOCATE=13 PADDING_LANES=14 WRAP=15 RANK=16 DIRECT_X=17 DIRECT_W=18 "
        "SPLAT_X=19 SPLAT_W=20 BYTES_UNSIGNED?=98 FEW_ITEMS?=99 ep_code_0?=100 "
        "ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 "
        "ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 "
        "ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 "
        "ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 "
        "ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "elementwise/cast": (
        "count chunk low:float high:float int_low int_high",
        "WRAP=15 TO_BOOL=16 TO_HALF=17 NAN_HIGH=18 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "elementwise/compare": (
        "count chunk elements spatial blocks channels size[6] stride_x[6] stride_w[6]",
        "KIND=10 PADDING_LANES=14 RANK=16 DIRECT_X=17 DIRECT_W=18 SPLAT_X=19 SPLAT_W=20 "
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "elementwise/glu": (
        "total chunk row part plane blocks channels",
        "PADDING_LANES=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "elementwise/unary": (
        "count chunk spatial blocks channels a b",
        "CODE=10 A:float=11 B:float=12 LOCATE=13 PADDING_LANES=14 WRAP=15 BYTES_UNSIGNED?=98 "
        "FEW_ITEMS?=99 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 "
        "ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 "
        "ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 "
        "ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 "
        "ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "elementwise/where": (
        "count chunk elements spatial blocks channels size[6] stride_x[6] stride_w[6] "
        "stride_c[6]",
        "PADDING_LANES=14 RANK=16 DIRECT_X=17 DIRECT_W=18 SPLAT_X=19 SPLAT_W=20 DIRECT_C=21 "
        "SPLAT_C=22 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "generator/numbers": (
        "count chunk key_low key_high stream_low stream_high",
        "KIND=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/arg_extreme": (
        "rows count inner plane blocks channels",
        "LANES=10 ROWS=11 LARGEST=12 LAST=13 PADDING_LANES=14 NAN_LAST=15 BYTES_UNSIGNED?=98 "
        "FEW_ITEMS?=99",
    ),
    "indexing/gather": (
        "count chunk index_count inner size mode",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/gather_nd": (
        "count chunk inner in_a_batch from_end size[8]",
        "TUPLE_SIZE=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/nonzero_count": (
        "lanes chunk elements per_lane",
        "BELOW=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/nonzero_numbers": (
        "lanes chunk elements per_lane",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/nonzero_places": (
        "lanes chunk elements per_lane size[8]",
        "RANK=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/nonzero_twins": (
        "count chunk first last",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/nonzero_unique": (
        "count chunk",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/scatter_apply": (
        "count chunk first update_count rows inner",
        "REDUCTION=10 ORDERED=11 WRAP=12 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/scatter_link": (
        "count chunk first rows from_end size[8]",
        "TUPLE_SIZE=10 LAST=11 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/search_sorted": (
        "count chunk size",
        "RIGHT=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/topk_merge": (
        "total chunk count inner k run",
        "LARGEST=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/topk_pick": (
        "rows count inner k",
        "LANES=10 LARGEST=11 BYTES_UNSIGNED?=98",
    ),
    "indexing/topk_rank": (
        "total chunk count inner k",
        "LARGEST=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "indexing/topk_reorder": (
        "total chunk k inner",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "matmul/finish_scalar": (
        "count n",
        "BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 "
        "ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 "
        "ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 "
        "ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 "
        "ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "matmul/integer": (
        "m n k a_row a_col b_row b_col c_row d1 d2 a_step0 a_step1 a_step2 b_step0 b_step1 "
        "b_step2 c_step0 c_step1 c_step2",
        "ROWS=10 COLS=11 LANES_M=12 LANES_N=13 MIXED?=25 BYTES_UNSIGNED?=98",
    ),
    "matmul/largest": (
        "rows count",
        "LANES=10 ROWS=11 BYTES_UNSIGNED?=98",
    ),
    "matmul/quantize_rows": (
        "rows count per matrix_step row_step step parts",
        "LANES=10 ROWS=11 BYTES_UNSIGNED?=98",
    ),
    "matmul/rescale": (
        "count chunk m n a_period b_column d1 d2 a_step0 a_step1 a_step2 b_step0 b_step1 "
        "b_step2 c_step0 c_step1 c_step2",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "matmul/round_blocks": (
        "blocks chunk width size in_row",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "matmul/row": (
        "n4 k a_step b_step b_row b_block b_panel bias",
        "COLS=10 LANES_X=11 LANES_Y=12 LAST=13 STEPS=14 B_ROW=15 BYTES_UNSIGNED?=98 "
        "ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 "
        "ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 "
        "ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 "
        "ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 "
        "ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "matmul/shared": (
        "m n k a_row a_col b_row b_col b_block b_panel c_row bias alpha:float d1 d2 a_step0 "
        "a_step1 a_step2 b_step0 b_step1 b_step2 c_step0 c_step1 c_step2",
        "ROWS=10 COLS=11 LANES_M=12 LANES_N=13 DEPTH=14 A_STRIDE=15 B_STRIDE=16 A_DOWN=17 "
        "B_DOWN=18 AHEAD=19 MATRIX_M?=20 MATRIX_N?=21 MATRIX_K?=22 MATRICES_M?=23 "
        "MATRICES_N?=24 WHOLE=26 COLUMNS_ALONG_K?=27 COLUMNS_IN_MEMORY?=28 NORM_LANES?=30 "
        "NORM_HELD?=31 NORM_EPSILON:float?=32 BYTES_UNSIGNED?=98 ep_code_0?=100 "
        "ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 "
        "ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 "
        "ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 "
        "ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 "
        "ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "matmul/tile": (
        "m n4 k4 b_count a_row b_row b_block b_panel c_row bias alpha:float d1 d2 a_step0 "
        "a_step1 a_step2 b_step0 b_step1 b_step2 c_step0 c_step1 c_step2",
        "ROWS=10 COLS=11 LANES_M=12 LANES_N=13 RAGGED=14 BYTES_UNSIGNED?=98 ep_code_0?=100 "
        "ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 "
        "ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 "
        "ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 "
        "ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 "
        "ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "matmul/tile_scalar": (
        "m n k a_row a_col b_row b_col b_block b_panel c_row bias alpha:float d1 d2 a_step0 "
        "a_step1 a_step2 b_step0 b_step1 b_step2 c_step0 c_step1 c_step2",
        "ROWS=10 COLS=11 LANES_M=12 LANES_N=13 BYTES_UNSIGNED?=98 ep_code_0?=100 "
        "ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 "
        "ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 "
        "ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 "
        "ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 "
        "ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "matmul/tile_subgroup": (
        "m n4 k4 b_count a_row b_row b_block b_panel c_row bias alpha:float d1 d2 a_step0 "
        "a_step1 a_step2 b_step0 b_step1 b_step2 c_step0 c_step1 c_step2",
        "ROWS=10 COLS=11 RAGGED=12 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 "
        "ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 "
        "ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 "
        "ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 "
        "ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 "
        "ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "matmul/wide": (
        "m n4 k4 span a_row b_row b_block b_panel c_row bias alpha:float d1 d2 a_step0 "
        "a_step1 a_step2 b_step0 b_step1 b_step2 c_step0 c_step1 c_step2",
        "ROWS=10 STEPS=11 LANES_N=12 PARTS=13 CHUNK=14 B_ROW=15 NORM_LANES?=30 NORM_HELD?=31 "
        "NORM_EPSILON:float?=32 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 "
        "ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 "
        "ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 "
        "ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 "
        "ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 "
        "ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "movement/blocks": (
        "count chunk elements places block_d block_h block_w in_c in_d in_h in_w out_c out_d "
        "out_h out_w",
        "TO_SPACE=10 DCR=11 IN_C4=12 OUT_C4=13 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/bytes": (
        "count chunk",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/convert": (
        "count chunk",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/gather": (
        "count chunk elements base channels split_step fill size[6] stride[6] before[6] "
        "extent[6]",
        "RANK=10 CHANNEL=11 OUT_C4=12 SPLIT=13 PAD=14 VALUES=15 SHUFFLE=16 PADDING_LANES=17 "
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/interleave": (
        "count chunk spatial blocks channels",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/join_channels": (
        "count chunk spatial channels_x channels_w blocks_x blocks_w blocks",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/matrix_diag": (
        "count chunk elements size width down right",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/overlay": (
        "count chunk elements size[6] start[6] extent[6] stride[6]",
        "CHANNEL=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/overlay_at": (
        "count chunk elements axes size[6] extent[6] unit[6]",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/pack": (
        "count chunk channels channels4 spatial",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/place": (
        "count chunk row_size stride offset",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/place_channels": (
        "count chunk spatial offset channels blocks_in blocks_out first covered",
        "LAST=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/port": (
        "count chunk size first sizes[8] strides[8]",
        "FROM=10 TO=11 AXES=12 ROUNDED=13 NAN_HIGH=14 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/reverse_sequence": (
        "count chunk first middle second inner",
        "TIME_FIRST=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "movement/unpack": (
        "count chunk channels channels4 spatial last",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "normalization/batch_norm": (
        "total plane c4 channels",
        "UNROLL=10 BYTES_UNSIGNED?=98",
    ),
    "normalization/layer_norm": (
        "rows width inverse:float epsilon:float",
        "LANES=10 ROWS=11 BYTES_UNSIGNED?=98",
    ),
    "normalization/lrn": (
        "total c4 channels depth height width before_d after_d before_h after_h before_w "
        "after_w alpha:float beta:float bias:float",
        "BEFORE_C=10 AFTER_C=11 SPATIAL=12 QUARTERS=13 BYTES_UNSIGNED?=98",
    ),
    "normalization/moments": (
        "rows parts share:float epsilon:float",
        "FACTOR=10 BYTES_UNSIGNED?=98",
    ),
    "normalization/normalize": (
        "rows count kept1 kept2 kept_step0 kept_step1 kept_step2 reduced1 reduced2 "
        "reduced_step0 reduced_step1 reduced_step2 extent plane blocks channels parts chunk "
        "spread period shifts inverse:float share:float epsilon:float",
        "LANES=10 ROWS=11 KEPT=12 REDUCED=13 ACROSS=14 PADDING_LANES=15 CENTER=16 FACTOR=17 "
        "NUMBER=18 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "pooling/adaptive": (
        "total c4 channels in_d in_h in_w out_d out_h out_w",
        "AVERAGE=10 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 "
        "ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 "
        "ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 "
        "ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 "
        "ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 "
        "ep_mode_5?=123",
    ),
    "pooling/global": (
        "total c4 channels rows columns",
        "AVERAGE=10 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 "
        "ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 "
        "ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 "
        "ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 "
        "ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 "
        "ep_mode_5?=123",
    ),
    "pooling/global_shared": (
        "total c4 channels pixels",
        "AVERAGE=10 LANES=11 BYTES_UNSIGNED?=98 ep_code_0?=100 ep_a_0:float?=101 "
        "ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 ep_a_1:float?=105 ep_b_1:float?=106 "
        "ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 ep_b_2:float?=110 ep_mode_2?=111 "
        "ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 ep_mode_3?=115 ep_code_4?=116 "
        "ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 ep_code_5?=120 ep_a_5:float?=121 "
        "ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "pooling/reduce_window": (
        "count chunk inner size_in size_out window stride dilation base pad none",
        "JOIN=10 WRAP=11 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "pooling/roi_bilinear": (
        "count chunk c4 channels images columns in_h in_w out_h out_w rows across scale:float",
        "PARTS=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "pooling/roi_deformable": (
        "count chunk channels images columns in_h in_w out_h out_w group rows across parts "
        "classes each scale:float spread:float",
        "MOVED=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "pooling/roi_pool": (
        "count chunk c4 channels images columns in_h in_w out_h out_w row rows scale:float "
        "share_h:float share_w:float",
        "KIND=10 RATIO=11 ALIGNED=12 FIRST=13 LAST=14 WHOLE=15 LARGEST=16 BYTES_UNSIGNED?=98 "
        "FEW_ITEMS?=99",
    ),
    "pooling/window": (
        "total tiles c4 channels in_d in_h in_w out_d out_h out_w kernel_d kernel_h kernel_w "
        "stride_d stride_h dilation_d dilation_h pad_d pad_h pad_w padding:either",
        "AVERAGE=10 COUNT_PADDING=11 TX=12 KERNEL=13 STRIDE=14 DILATION=15 BYTES_UNSIGNED?=98 "
        "ep_code_0?=100 ep_a_0:float?=101 ep_b_0:float?=102 ep_mode_0?=103 ep_code_1?=104 "
        "ep_a_1:float?=105 ep_b_1:float?=106 ep_mode_1?=107 ep_code_2?=108 ep_a_2:float?=109 "
        "ep_b_2:float?=110 ep_mode_2?=111 ep_code_3?=112 ep_a_3:float?=113 ep_b_3:float?=114 "
        "ep_mode_3?=115 ep_code_4?=116 ep_a_4:float?=117 ep_b_4:float?=118 ep_mode_4?=119 "
        "ep_code_5?=120 ep_a_5:float?=121 ep_b_5:float?=122 ep_mode_5?=123",
    ),
    "profiling/copy": (
        "",
        "ITEMS=10 BYTES_UNSIGNED?=98",
    ),
    "profiling/dots": (
        "rounds factor",
        "MIXED=25 BYTES_UNSIGNED?=98",
    ),
    "profiling/fma": (
        "rounds factor:float summand:float",
        "BYTES_UNSIGNED?=98",
    ),
    "profiling/fma_half": (
        "rounds factor:float summand:float",
        "BYTES_UNSIGNED?=98",
    ),
    "profiling/nothing": (
        "",
        "BYTES_UNSIGNED?=98",
    ),
    "quantized/bfloat16": (
        "count chunk",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/binary": (
        "count chunk elements spatial blocks channels size[6] stride_x[6] stride_w[6]",
        "KIND=10 PADDING_LANES=14 OTHER_UNSIGNED=15 RANK?=16 DIRECT_X?=17 DIRECT_W?=18 "
        "SPLAT_X?=19 SPLAT_W?=20 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/blocks_floats": (
        "count chunk n k blocks",
        "BITS=10 BLOCK=11 MIDDLE=12 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/blocks_product": (
        "m n k4 groups blocks bias",
        "ROWS=10 BITS=11 BLOCK=12 LANES=13 PARTS=14 WHOLE=15 MIDDLE=16 BYTES_UNSIGNED?=98",
    ),
    "quantized/dequantize": (
        "count chunk inner channels zero",
        "C4=10 SCALE_VECTOR=11 BIAS_VECTOR=12 BIAS=13 PADDING_LANES=16 BYTES_UNSIGNED?=98 "
        "FEW_ITEMS?=99",
    ),
    "quantized/dynamic_parts": (
        "rows width parts chunk",
        "ROUNDING=12 BYTES_UNSIGNED?=98",
    ),
    "quantized/dynamic_range": (
        "rows width parts chunk",
        "LANES=10 BYTES_UNSIGNED?=98",
    ),
    "quantized/dynamic_rows": (
        "rows width",
        "LANES=10 ROWS=11 ROUNDING=12 BYTES_UNSIGNED?=98",
    ),
    "quantized/fixed_byte_softmax": (
        "rows width chunk bits low high",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/fixed_byte_softmax_of_row": (
        "rows width bits low high",
        "LANES=11 BYTES_UNSIGNED?=98",
    ),
    "quantized/fixed_softmax": (
        "rows width chunk",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/float_rescale": (
        "count chunk scale:float bias:float zero_out low high spatial blocks channels",
        "PADDING_LANES=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/gather_codes": (
        "count chunk width words rows",
        "BITS=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/l2_normalization": (
        "rows width chunk zero",
        "UNSIGNED=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/layer_norm": (
        "rows width chunk scale:float",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/log_softmax": (
        "rows width chunk scale:float step_in:float zero low high",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/log_softmax_of_row": (
        "rows width scale:float step_in:float zero low high",
        "LANES=11 BYTES_UNSIGNED?=98",
    ),
    "quantized/lookup": (
        "count chunk first last spatial blocks channels",
        "PADDING_LANES=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/product": (
        "m n k a_row a_col b_row b_col c_row b_block b_panel zero_b d1 d2 a_step0 a_step1 "
        "a_step2 b_step0 b_step1 b_step2 c_step0 c_step1 c_step2",
        "ROWS=10 COLS=11 LANES_M=12 LANES_N=13 WEIGHT_BITS?=14 JOIN=20 ROUNDING=21 SIGN=22 "
        "FOLDED=23 MIXED?=25 CENTRE?=26 BYTES_UNSIGNED?=98",
    ),
    "quantized/quantize": (
        "count chunk inner channels low high",
        "C4=10 SCALE_VECTOR=11 ZERO_VECTOR=12 MULTIPLY=13 HALF_AWAY=14 SATURATE=15 "
        "PADDING_LANES=16 NEAR=17 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/reduce_prod": (
        "rows width chunk factor right zero_in zero_out low high",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/rescale": (
        "count chunk zero_in left q shift zero_out low high spatial blocks channels",
        "PADDING_LANES=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "quantized/resize": (
        "count chunk height width in_height in_width",
        "FLOATING=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "random/categorical": (
        "count chunk key_low key_high elements samples classes",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "random/draw": (
        "count chunk key_low key_high offset:float factor:float largest:float below",
        "KIND=10 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "random/sums": (
        "rows chunk width",
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "recurrent/integer": (
        "units rows inputs outputs x_step x_batch y_step y_batch batch blocks first count "
        "tables_at w_at r_at bias_at p_at norm_at projection_at",
        "LANES=10 PHASE=11 PEEPHOLES=12 NORMALIZED=13 PROJECTION=14 COUPLED=15 SLOTS?=16 "
        "BYTES_UNSIGNED?=98",
    ),
    "recurrent/states": (
        "count chunk slots outputs units h_at c_at batch directions inner",
        "HAS_H=10 HAS_C=11 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "recurrent/steps": (
        "units units4 outputs h4 x_step x_batch y_step y_batch y_direction w_direction "
        "entries batch blocks steps first count reverse slots fresh",
        "LANES_X=10 LANES_Y=11 CELL=12 PHASE=13 PROJECTION=14 PEEPHOLES=15 COUPLED=16 "
        "ROUNDED=17 SLOTS?=18 NORMALIZED=19 PROJECTION_ROUNDED=20 OF_CANDIDATE=21 F_CODE=30 "
        "F_ALPHA:float=31 F_BETA:float=32 G_CODE=33 G_ALPHA:float=34 G_BETA:float=35 "
        "H_CODE=36 H_ALPHA:float=37 H_BETA:float=38 CLIP:float=40 CELL_CLIP:float=41 "
        "PROJECTION_CLIP:float=42 BOUNDED=43 EPSILON:float=44 BYTES_UNSIGNED?=98",
    ),
    "reduction/cumsum": (
        "rows count inner chunk",
        "LANES=10 ROWS=11 EXCLUSIVE=12 REVERSE=13 PRODUCT=14 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "reduction/mean_in_order": (
        "rows count kept1 kept2 kept_step0 kept_step1 kept_step2 reduced1 reduced2 "
        "reduced_step0 reduced_step1 reduced_step2 extent plane blocks channels begin end "
        "number:float",
        "LANES=10 ROWS=11 KEPT=12 REDUCED=13 ACROSS=14 PADDING_LANES=15 FIRST=16 LAST=17 "
        "BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "reduction/reduce": (
        "rows count kept1 kept2 kept_step0 kept_step1 kept_step2 reduced1 reduced2 "
        "reduced_step0 reduced_step1 reduced_step2 extent plane blocks channels parts chunk "
        "factor:float",
        "LANES=10 ROWS=11 KEPT=12 REDUCED=13 ACROSS=14 PADDING_LANES=15 JOIN=16 TERM=17 "
        "FINISH=18 SINGLE=19 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
    "reduction/softmax": (
        "rows count inner axis spatial blocks channels",
        "LANES=10 ROWS=11 ACROSS=12 PADDING_LANES=13 LOGARITHM=14 BYTES_UNSIGNED?=98 "
        "FEW_ITEMS?=99",
    ),
    "sampling/grid_sample": (
        "count chunk c4 places size[3] batch_step place_step axis_step",
        "MODE=10 PADDING=11 ALIGN=12 AXES=13 TO_EVEN=14 REPEATED=15 BYTES_UNSIGNED?=98 "
        "FEW_ITEMS?=99",
    ),
    "sampling/resize": (
        "count chunk out_size[3] in_size[3]",
        "TAPS=10 AXES=11 BYTES_UNSIGNED?=98 FEW_ITEMS?=99",
    ),
}
