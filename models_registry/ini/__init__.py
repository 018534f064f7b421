"""llama.cpp's presets files: read, applied, imported and exported."""
