"""Parts of a node, built from the configuration: driver, samplers, guard, responder, stores."""
