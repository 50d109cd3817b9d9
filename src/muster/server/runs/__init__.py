"""The platform's section of the server: submitted jobs, their queue, and the runs that they become."""
