"""What idlestate reports about itself: metric names, registry, growth."""
