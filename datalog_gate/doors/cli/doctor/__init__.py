"""The checks of the command `doctor`: pipelines of api-paste.ini, and the installation of the gate."""
