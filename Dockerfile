# RewardLab on a GPU: docker build -t rewardlab . && docker run --gpus all -v "$PWD/data:/rewardlab/data" rewardlab run ppo_cartpole
# On a CPU: docker build --build-arg JAX=jax -t rewardlab .
FROM python:3.11-slim
ARG JAX="jax[cuda13]"
COPY . /source
RUN pip install --no-cache-dir "/source[hub]" "$JAX" && rm -rf /source
WORKDIR /rewardlab
VOLUME /rewardlab/data
ENTRYPOINT ["rewardlab"]
