"""Client libraries that call real servers, which answer, hang, reset, cut and stream."""
