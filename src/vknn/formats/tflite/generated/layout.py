"""Layouts of the tables of a TensorFlow Lite file; made by tools/tflite_schema.py.

A slot is a name, a kind and what that kind needs to know: ``scalar`` bytes, ``vector``
bytes of an element, ``string``, ``table`` and ``tables`` (a vector of them) the table,
``union`` its name. A union takes two slots, the first says which member it is.
"""

from __future__ import annotations

#: One slot of a table: name, kind, and a size in bytes or a name.
Slot = tuple[str, str, int | str]

TABLES: dict[str, tuple[Slot, ...]] = {
    "CustomQuantization": (
        ("custom", "vector", 1),
    ),
    "BlockwiseQuantization": (
        ("scales", "scalar", 4),
        ("zero_points", "scalar", 4),
        ("block_size", "scalar", 4),
    ),
    "QuantizationParameters": (
        ("min", "vector", 4),
        ("max", "vector", 4),
        ("scale", "vector", 4),
        ("zero_point", "vector", 8),
        ("details_type", "scalar", 1),
        ("details", "union", "QuantizationDetails"),
        ("quantized_dimension", "scalar", 4),
    ),
    "Int32Vector": (
        ("values", "vector", 4),
    ),
    "Uint16Vector": (
        ("values", "vector", 2),
    ),
    "Uint8Vector": (
        ("values", "vector", 1),
    ),
    "DimensionMetadata": (
        ("format", "scalar", 1),
        ("dense_size", "scalar", 4),
        ("array_segments_type", "scalar", 1),
        ("array_segments", "union", "SparseIndexVector"),
        ("array_indices_type", "scalar", 1),
        ("array_indices", "union", "SparseIndexVector"),
    ),
    "SparsityParameters": (
        ("traversal_order", "vector", 4),
        ("block_map", "vector", 4),
        ("dim_metadata", "tables", "DimensionMetadata"),
    ),
    "Tensor": (
        ("shape", "vector", 4),
        ("type", "scalar", 1),
        ("buffer", "scalar", 4),
        ("name", "string", 1),
        ("quantization", "table", "QuantizationParameters"),
        ("is_variable", "scalar", 1),
        ("sparsity", "table", "SparsityParameters"),
        ("shape_signature", "vector", 4),
        ("has_rank", "scalar", 1),
    ),
    "Conv2DOptions": (
        ("padding", "scalar", 1),
        ("stride_w", "scalar", 4),
        ("stride_h", "scalar", 4),
        ("fused_activation_function", "scalar", 1),
        ("dilation_w_factor", "scalar", 4),
        ("dilation_h_factor", "scalar", 4),
        ("quantized_bias_type", "scalar", 1),
    ),
    "Pool2DOptions": (
        ("padding", "scalar", 1),
        ("stride_w", "scalar", 4),
        ("stride_h", "scalar", 4),
        ("filter_width", "scalar", 4),
        ("filter_height", "scalar", 4),
        ("fused_activation_function", "scalar", 1),
    ),
    "DepthwiseConv2DOptions": (
        ("padding", "scalar", 1),
        ("stride_w", "scalar", 4),
        ("stride_h", "scalar", 4),
        ("depth_multiplier", "scalar", 4),
        ("fused_activation_function", "scalar", 1),
        ("dilation_w_factor", "scalar", 4),
        ("dilation_h_factor", "scalar", 4),
    ),
    "ConcatEmbeddingsOptions": (
        ("num_channels", "scalar", 4),
        ("num_columns_per_channel", "vector", 4),
        ("embedding_dim_per_channel", "vector", 4),
    ),
    "LSHProjectionOptions": (
        ("type", "scalar", 1),
    ),
    "SVDFOptions": (
        ("rank", "scalar", 4),
        ("fused_activation_function", "scalar", 1),
        ("asymmetric_quantize_inputs", "scalar", 1),
    ),
    "RNNOptions": (
        ("fused_activation_function", "scalar", 1),
        ("asymmetric_quantize_inputs", "scalar", 1),
    ),
    "SequenceRNNOptions": (
        ("time_major", "scalar", 1),
        ("fused_activation_function", "scalar", 1),
        ("asymmetric_quantize_inputs", "scalar", 1),
    ),
    "BidirectionalSequenceRNNOptions": (
        ("time_major", "scalar", 1),
        ("fused_activation_function", "scalar", 1),
        ("merge_outputs", "scalar", 1),
        ("asymmetric_quantize_inputs", "scalar", 1),
    ),
    "FullyConnectedOptions": (
        ("fused_activation_function", "scalar", 1),
        ("weights_format", "scalar", 1),
        ("keep_num_dims", "scalar", 1),
        ("asymmetric_quantize_inputs", "scalar", 1),
        ("quantized_bias_type", "scalar", 1),
    ),
    "SoftmaxOptions": (
        ("beta", "scalar", 4),
    ),
    "ConcatenationOptions": (
        ("axis", "scalar", 4),
        ("fused_activation_function", "scalar", 1),
    ),
    "AddOptions": (
        ("fused_activation_function", "scalar", 1),
        ("pot_scale_int16", "scalar", 1),
    ),
    "MulOptions": (
        ("fused_activation_function", "scalar", 1),
    ),
    "L2NormOptions": (
        ("fused_activation_function", "scalar", 1),
    ),
    "LocalResponseNormalizationOptions": (
        ("radius", "scalar", 4),
        ("bias", "scalar", 4),
        ("alpha", "scalar", 4),
        ("beta", "scalar", 4),
    ),
    "LSTMOptions": (
        ("fused_activation_function", "scalar", 1),
        ("cell_clip", "scalar", 4),
        ("proj_clip", "scalar", 4),
        ("kernel_type", "scalar", 1),
        ("asymmetric_quantize_inputs", "scalar", 1),
    ),
    "UnidirectionalSequenceLSTMOptions": (
        ("fused_activation_function", "scalar", 1),
        ("cell_clip", "scalar", 4),
        ("proj_clip", "scalar", 4),
        ("time_major", "scalar", 1),
        ("asymmetric_quantize_inputs", "scalar", 1),
        ("diagonal_recurrent_tensors", "scalar", 1),
    ),
    "BidirectionalSequenceLSTMOptions": (
        ("fused_activation_function", "scalar", 1),
        ("cell_clip", "scalar", 4),
        ("proj_clip", "scalar", 4),
        ("merge_outputs", "scalar", 1),
        ("time_major", "scalar", 1),
        ("asymmetric_quantize_inputs", "scalar", 1),
    ),
    "ResizeBilinearOptions": (
        ("new_height", "scalar", 4),
        ("new_width", "scalar", 4),
        ("align_corners", "scalar", 1),
        ("half_pixel_centers", "scalar", 1),
    ),
    "ResizeNearestNeighborOptions": (
        ("align_corners", "scalar", 1),
        ("half_pixel_centers", "scalar", 1),
    ),
    "CallOptions": (
        ("subgraph", "scalar", 4),
    ),
    "PadOptions": (),
    "PadV2Options": (),
    "ReshapeOptions": (
        ("new_shape", "vector", 4),
    ),
    "SpaceToBatchNDOptions": (),
    "BatchToSpaceNDOptions": (),
    "SkipGramOptions": (
        ("ngram_size", "scalar", 4),
        ("max_skip_size", "scalar", 4),
        ("include_all_ngrams", "scalar", 1),
    ),
    "SpaceToDepthOptions": (
        ("block_size", "scalar", 4),
    ),
    "DepthToSpaceOptions": (
        ("block_size", "scalar", 4),
    ),
    "SubOptions": (
        ("fused_activation_function", "scalar", 1),
        ("pot_scale_int16", "scalar", 1),
    ),
    "DivOptions": (
        ("fused_activation_function", "scalar", 1),
    ),
    "TopKV2Options": (),
    "EmbeddingLookupSparseOptions": (
        ("combiner", "scalar", 1),
    ),
    "GatherOptions": (
        ("axis", "scalar", 4),
        ("batch_dims", "scalar", 4),
    ),
    "TransposeOptions": (),
    "ExpOptions": (),
    "CosOptions": (),
    "ReducerOptions": (
        ("keep_dims", "scalar", 1),
    ),
    "SqueezeOptions": (
        ("squeeze_dims", "vector", 4),
    ),
    "SplitOptions": (
        ("num_splits", "scalar", 4),
    ),
    "SplitVOptions": (
        ("num_splits", "scalar", 4),
    ),
    "StridedSliceOptions": (
        ("begin_mask", "scalar", 4),
        ("end_mask", "scalar", 4),
        ("ellipsis_mask", "scalar", 4),
        ("new_axis_mask", "scalar", 4),
        ("shrink_axis_mask", "scalar", 4),
        ("offset", "scalar", 1),
    ),
    "LogSoftmaxOptions": (),
    "CastOptions": (
        ("in_data_type", "scalar", 1),
        ("out_data_type", "scalar", 1),
    ),
    "DequantizeOptions": (),
    "MaximumMinimumOptions": (),
    "TileOptions": (),
    "ArgMaxOptions": (
        ("output_type", "scalar", 1),
    ),
    "ArgMinOptions": (
        ("output_type", "scalar", 1),
    ),
    "GreaterOptions": (),
    "GreaterEqualOptions": (),
    "LessOptions": (),
    "LessEqualOptions": (),
    "NegOptions": (),
    "SelectOptions": (),
    "SliceOptions": (),
    "TransposeConvOptions": (
        ("padding", "scalar", 1),
        ("stride_w", "scalar", 4),
        ("stride_h", "scalar", 4),
        ("fused_activation_function", "scalar", 1),
        ("quantized_bias_type", "scalar", 1),
    ),
    "ExpandDimsOptions": (),
    "SparseToDenseOptions": (
        ("validate_indices", "scalar", 1),
    ),
    "EqualOptions": (),
    "NotEqualOptions": (),
    "ShapeOptions": (
        ("out_type", "scalar", 1),
    ),
    "RankOptions": (),
    "PowOptions": (),
    "FakeQuantOptions": (
        ("min", "scalar", 4),
        ("max", "scalar", 4),
        ("num_bits", "scalar", 4),
        ("narrow_range", "scalar", 1),
    ),
    "PackOptions": (
        ("values_count", "scalar", 4),
        ("axis", "scalar", 4),
    ),
    "LogicalOrOptions": (),
    "OneHotOptions": (
        ("axis", "scalar", 4),
    ),
    "AbsOptions": (),
    "HardSwishOptions": (),
    "LogicalAndOptions": (),
    "LogicalNotOptions": (),
    "UnpackOptions": (
        ("num", "scalar", 4),
        ("axis", "scalar", 4),
    ),
    "FloorDivOptions": (),
    "SquareOptions": (),
    "ZerosLikeOptions": (),
    "FillOptions": (),
    "FloorModOptions": (),
    "RangeOptions": (),
    "LeakyReluOptions": (
        ("alpha", "scalar", 4),
    ),
    "SquaredDifferenceOptions": (),
    "MirrorPadOptions": (
        ("mode", "scalar", 1),
    ),
    "UniqueOptions": (
        ("idx_out_type", "scalar", 1),
    ),
    "ReverseV2Options": (),
    "AddNOptions": (),
    "GatherNdOptions": (),
    "WhereOptions": (),
    "ReverseSequenceOptions": (
        ("seq_dim", "scalar", 4),
        ("batch_dim", "scalar", 4),
    ),
    "MatrixDiagOptions": (),
    "QuantizeOptions": (),
    "MatrixSetDiagOptions": (),
    "IfOptions": (
        ("then_subgraph_index", "scalar", 4),
        ("else_subgraph_index", "scalar", 4),
    ),
    "WhileOptions": (
        ("cond_subgraph_index", "scalar", 4),
        ("body_subgraph_index", "scalar", 4),
    ),
    "NonMaxSuppressionV4Options": (),
    "NonMaxSuppressionV5Options": (),
    "ScatterNdOptions": (),
    "SelectV2Options": (),
    "DensifyOptions": (),
    "SegmentSumOptions": (),
    "BatchMatMulOptions": (
        ("adj_x", "scalar", 1),
        ("adj_y", "scalar", 1),
        ("asymmetric_quantize_inputs", "scalar", 1),
    ),
    "CumsumOptions": (
        ("exclusive", "scalar", 1),
        ("reverse", "scalar", 1),
    ),
    "CallOnceOptions": (
        ("init_subgraph_index", "scalar", 4),
    ),
    "BroadcastToOptions": (),
    "Rfft2dOptions": (),
    "Conv3DOptions": (
        ("padding", "scalar", 1),
        ("stride_d", "scalar", 4),
        ("stride_w", "scalar", 4),
        ("stride_h", "scalar", 4),
        ("fused_activation_function", "scalar", 1),
        ("dilation_d_factor", "scalar", 4),
        ("dilation_w_factor", "scalar", 4),
        ("dilation_h_factor", "scalar", 4),
    ),
    "OperatorCode": (
        ("deprecated_builtin_code", "scalar", 1),
        ("custom_code", "string", 1),
        ("version", "scalar", 4),
        ("builtin_code", "scalar", 4),
    ),
    "Operator": (
        ("opcode_index", "scalar", 4),
        ("inputs", "vector", 4),
        ("outputs", "vector", 4),
        ("builtin_options_type", "scalar", 1),
        ("builtin_options", "union", "BuiltinOptions"),
        ("custom_options", "vector", 1),
        ("custom_options_format", "scalar", 1),
        ("mutating_variable_inputs", "vector", 1),
        ("intermediates", "vector", 4),
    ),
    "SubGraph": (
        ("tensors", "tables", "Tensor"),
        ("inputs", "vector", 4),
        ("outputs", "vector", 4),
        ("operators", "tables", "Operator"),
        ("name", "string", 1),
        ("debug_metadata_index", "scalar", 4),
    ),
    "Buffer": (
        ("data", "vector", 1),
        ("offset", "scalar", 8),
        ("size", "scalar", 8),
    ),
    "Metadata": (
        ("name", "string", 1),
        ("buffer", "scalar", 4),
    ),
    "TensorMap": (
        ("name", "string", 1),
        ("tensor_index", "scalar", 4),
    ),
    "SignatureDef": (
        ("inputs", "tables", "TensorMap"),
        ("outputs", "tables", "TensorMap"),
        ("signature_key", "string", 1),
        ("deprecated_tag", "string", 1),
        ("subgraph_index", "scalar", 4),
    ),
    "Model": (
        ("version", "scalar", 4),
        ("operator_codes", "tables", "OperatorCode"),
        ("subgraphs", "tables", "SubGraph"),
        ("description", "string", 1),
        ("buffers", "tables", "Buffer"),
        ("metadata_buffer", "vector", 4),
        ("metadata", "tables", "Metadata"),
        ("signature_defs", "tables", "SignatureDef"),
    ),
}

#: The members of each union; number 0 is none.
UNIONS: dict[str, tuple[str, ...]] = {
    "QuantizationDetails": ("CustomQuantization", "BlockwiseQuantization"),
    "SparseIndexVector": ("Int32Vector", "Uint16Vector", "Uint8Vector"),
    "BuiltinOptions": ("Conv2DOptions", "DepthwiseConv2DOptions", "ConcatEmbeddingsOptions", "LSHProjectionOptions", "Pool2DOptions", "SVDFOptions", "RNNOptions", "FullyConnectedOptions", "SoftmaxOptions", "ConcatenationOptions", "AddOptions", "L2NormOptions", "LocalResponseNormalizationOptions", "LSTMOptions", "ResizeBilinearOptions", "CallOptions", "ReshapeOptions", "SkipGramOptions", "SpaceToDepthOptions", "EmbeddingLookupSparseOptions", "MulOptions", "PadOptions", "GatherOptions", "BatchToSpaceNDOptions", "SpaceToBatchNDOptions", "TransposeOptions", "ReducerOptions", "SubOptions", "DivOptions", "SqueezeOptions", "SequenceRNNOptions", "StridedSliceOptions", "ExpOptions", "TopKV2Options", "SplitOptions", "LogSoftmaxOptions", "CastOptions", "DequantizeOptions", "MaximumMinimumOptions", "ArgMaxOptions", "LessOptions", "NegOptions", "PadV2Options", "GreaterOptions", "GreaterEqualOptions", "LessEqualOptions", "SelectOptions", "SliceOptions", "TransposeConvOptions", "SparseToDenseOptions", "TileOptions", "ExpandDimsOptions", "EqualOptions", "NotEqualOptions", "ShapeOptions", "PowOptions", "ArgMinOptions", "FakeQuantOptions", "PackOptions", "LogicalOrOptions", "OneHotOptions", "LogicalAndOptions", "LogicalNotOptions", "UnpackOptions", "FloorDivOptions", "SquareOptions", "ZerosLikeOptions", "FillOptions", "BidirectionalSequenceLSTMOptions", "BidirectionalSequenceRNNOptions", "UnidirectionalSequenceLSTMOptions", "FloorModOptions", "RangeOptions", "ResizeNearestNeighborOptions", "LeakyReluOptions", "SquaredDifferenceOptions", "MirrorPadOptions", "AbsOptions", "SplitVOptions", "UniqueOptions", "ReverseV2Options", "AddNOptions", "GatherNdOptions", "CosOptions", "WhereOptions", "RankOptions", "ReverseSequenceOptions", "MatrixDiagOptions", "QuantizeOptions", "MatrixSetDiagOptions", "HardSwishOptions", "IfOptions", "WhileOptions", "DepthToSpaceOptions", "NonMaxSuppressionV4Options", "NonMaxSuppressionV5Options", "ScatterNdOptions", "SelectV2Options", "DensifyOptions", "SegmentSumOptions", "BatchMatMulOptions", "CumsumOptions", "CallOnceOptions", "BroadcastToOptions", "Rfft2dOptions", "Conv3DOptions"),
}

#: The scalar slots that hold a member of an enum: table -> slot -> name of the enum.
ENUMS: dict[str, dict[str, str]] = {
    "DimensionMetadata": {"format": "DimensionType"},
    "Tensor": {"type": "TensorType"},
    "Conv2DOptions": {"padding": "Padding", "fused_activation_function": "ActivationFunctionType", "quantized_bias_type": "TensorType"},
    "Pool2DOptions": {"padding": "Padding", "fused_activation_function": "ActivationFunctionType"},
    "DepthwiseConv2DOptions": {"padding": "Padding", "fused_activation_function": "ActivationFunctionType"},
    "LSHProjectionOptions": {"type": "LSHProjectionType"},
    "SVDFOptions": {"fused_activation_function": "ActivationFunctionType"},
    "RNNOptions": {"fused_activation_function": "ActivationFunctionType"},
    "SequenceRNNOptions": {"fused_activation_function": "ActivationFunctionType"},
    "BidirectionalSequenceRNNOptions": {"fused_activation_function": "ActivationFunctionType"},
    "FullyConnectedOptions": {"fused_activation_function": "ActivationFunctionType", "weights_format": "FullyConnectedOptionsWeightsFormat", "quantized_bias_type": "TensorType"},
    "ConcatenationOptions": {"fused_activation_function": "ActivationFunctionType"},
    "AddOptions": {"fused_activation_function": "ActivationFunctionType"},
    "MulOptions": {"fused_activation_function": "ActivationFunctionType"},
    "L2NormOptions": {"fused_activation_function": "ActivationFunctionType"},
    "LSTMOptions": {"fused_activation_function": "ActivationFunctionType", "kernel_type": "LSTMKernelType"},
    "UnidirectionalSequenceLSTMOptions": {"fused_activation_function": "ActivationFunctionType"},
    "BidirectionalSequenceLSTMOptions": {"fused_activation_function": "ActivationFunctionType"},
    "SubOptions": {"fused_activation_function": "ActivationFunctionType"},
    "DivOptions": {"fused_activation_function": "ActivationFunctionType"},
    "EmbeddingLookupSparseOptions": {"combiner": "CombinerType"},
    "CastOptions": {"in_data_type": "TensorType", "out_data_type": "TensorType"},
    "ArgMaxOptions": {"output_type": "TensorType"},
    "ArgMinOptions": {"output_type": "TensorType"},
    "TransposeConvOptions": {"padding": "Padding", "fused_activation_function": "ActivationFunctionType", "quantized_bias_type": "TensorType"},
    "ShapeOptions": {"out_type": "TensorType"},
    "MirrorPadOptions": {"mode": "MirrorPadMode"},
    "UniqueOptions": {"idx_out_type": "TensorType"},
    "Conv3DOptions": {"padding": "Padding", "fused_activation_function": "ActivationFunctionType"},
    "OperatorCode": {"builtin_code": "BuiltinOperator"},
    "Operator": {"custom_options_format": "CustomOptionsFormat"},
}
