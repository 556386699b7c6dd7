"""Activity tracking: page views, searches and clicks."""
