"""From evidence to a setting of a knob: computed caps, start ramps, tightening and relaxing."""
