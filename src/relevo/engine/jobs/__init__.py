"""Jobs from enqueue to their final state, as operations that never commit."""
