"""What `gym-failures run` puts on the path of every Python process: this folder, each module of it on its own."""
