"""Vulkan itself: the API, structs, instance, device, memory, commands, messages."""
