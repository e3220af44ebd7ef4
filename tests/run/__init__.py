"""`gym-failures run` and `enable`, in processes of their own."""
