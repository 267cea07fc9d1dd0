"""Templates of `plait gen compose`: YAML with fields to fill in."""

from __future__ import annotations

from typing import Final

HEADER: Final = """# Written by `plait gen compose`.
#   docker compose up -d                            the overlay, its key server, Prometheus (:9090), Spark over the telemetry
#   docker compose --profile examples up -d         with publishers and subscribers
#   docker compose --profile grafana up -d          with Grafana (:3000) and its dashboards
#   docker compose exec {first} plait ls brokers    look at it
# compose.cluster.yaml beside it makes a cluster of Spark, compose.chaos.yaml puts a relay into each link.
# Secrets are generated on the first start, into the volume `secrets`. Ports are published to this machine alone, unless
# PLAIT_BIND=0.0.0.0 says otherwise.
x-image: &image
  image: ${{PLAIT_IMAGE:-plait-broker:0.1.0}}
  build: {{context: .., dockerfile: docker/Dockerfile, target: broker}}
  read_only: true
  tmpfs: ["/tmp:size=32m"]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  restart: unless-stopped
  stop_grace_period: 30s
  logging: {{driver: json-file, options: {{max-size: 10m, max-file: "3"}}}}

x-broker: &broker
  <<: *image
  command: [broker]
  healthcheck: {{start_period: 180s}}
  depends_on:
    init: {{condition: service_completed_successfully}}

x-settings: &settings
  PLAIT_BROKER__LISTEN: 0.0.0.0:4680
  PLAIT_BROKER__HTTP: 0.0.0.0:4681
  PLAIT_BROKER__DATA: /data
  PLAIT_BROKER__TABLES: /lake
  PLAIT_BROKER__OVERLAY__JOIN_S: 30
  PLAIT_BROKER__OVERLAY__SECRET_FILE: /run/plait/overlay-secret
  PLAIT_BROKER__ACCESS__TOKEN_FILE: /run/plait/token
  PLAIT_BROKER__ACCESS__HTTP_TOKEN_FILE: /run/plait/http-token
  PLAIT_TOKEN_FILE: /run/plait/token

services:
  init:
    <<: *image
    entrypoint: [sh, -euc]
    command:
      - |
        plait gen secrets /run/plait
        [ -f /keys/vault.json ] || plait keys init /keys --schema /etc/plait/schema.json --passphrase-file /run/plait/keys-passphrase
    restart: "no"
    healthcheck: {{disable: true}}
    network_mode: none
    volumes: ["secrets:/run/plait", "keys:/keys", "./keys:/etc/plait:ro"]

"""

BROKER: Final = """\
  {name}:
    <<: *broker
    environment:
      <<: *settings
      PLAIT_BROKER__NAME: {name}
      PLAIT_BROKER__OVERLAY__ADVERTISE: {name}:4680
      PLAIT_BROKER__OVERLAY__LINKS: {links}
      PLAIT_BROKER__TELEMETRY__DIRECTORY: /telemetry/{name}
    ports: ["${{PLAIT_BIND:-127.0.0.1}}:{port}:4680", "${{PLAIT_BIND:-127.0.0.1}}:{http}:4681"]
    networks: {networks}
    volumes: ["{name}-data:/data", "telemetry:/telemetry", "lake:/lake:ro", "secrets:/run/plait:ro"]
"""

REST: Final = """
  keyserver:
    <<: *image
    command: [keyserver, /keys, --listen, 0.0.0.0:4679, --host, keyserver, --passphrase-file, /run/plait/keys-passphrase]
    healthcheck: {{test: [CMD, python3, -I, -S, /opt/plait/ready.py, tcp, "4679"], interval: 10s, timeout: 10s, start_period: 180s}}
    depends_on:
      init: {{condition: service_completed_successfully}}
    ports: ["${{PLAIT_BIND:-127.0.0.1}}:4679:4679"]
    networks: {networks}
    volumes: ["keys:/keys", "secrets:/run/plait:ro"]

  # --- examples: docker compose --profile examples up -d ------------------------------------------------------------

  publisher-1: &example
    <<: *image
    profiles: [examples]
    entrypoint: [python3, /examples/quotes.py]
    command: [publish, IBM, SAP]
    environment: {{PLAIT_URL: "plait://{first}:4680", PLAIT_TOKEN_FILE: /run/plait/token}}
    healthcheck: {{test: [CMD, python3, -I, -S, /opt/plait/ready.py, fresh, /tmp/alive], interval: 10s, timeout: 10s, start_period: 180s}}
    depends_on:
      {first}: {{condition: service_healthy}}
    networks: [{first_network}]
    volumes: ["./examples:/examples:ro", "secrets:/run/plait:ro"]

  publisher-2:
    <<: *example
    command: [publish, ACME]
    environment: {{PLAIT_URL: "plait://{last}:4680", PLAIT_TOKEN_FILE: /run/plait/token}}
    depends_on:
      {last}: {{condition: service_healthy}}
    networks: [{last_network}]

  subscriber-1:
    <<: *example
    command: [subscribe, "symbol == 'IBM' and price < 120"]
    environment: {{PLAIT_URL: "plait://{last}:4680", PLAIT_TOKEN_FILE: /run/plait/token}}
    depends_on:
      {last}: {{condition: service_healthy}}
    networks: [{last_network}]

  subscriber-2:
    <<: *example
    command: [subscribe, "symbol in ['SAP', 'ACME']"]

  subscriber-3:
    <<: *example
    command: [subscribe, "price >= 120", bookkeeping]
    environment: {{PLAIT_URL: "plait://{middle}:4680", PLAIT_TOKEN_FILE: /run/plait/token}}
    depends_on:
      {middle}: {{condition: service_healthy}}
    networks: [{middle_network}]

  # --- monitoring ---------------------------------------------------------------------------------------------------

  prometheus:
    image: ${{PROMETHEUS_IMAGE:-prom/prometheus:v3.1.0}}
    entrypoint: [prometheus]
    command: [--config.file=/etc/prometheus/prometheus.yml, --storage.tsdb.path=/prometheus, --storage.tsdb.retention.time=15d]
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    restart: unless-stopped
    healthcheck: {{test: [CMD, promtool, query, instant, "http://127.0.0.1:9090", vector(1)], interval: 10s, timeout: 10s, start_period: 180s}}
    depends_on:
      init: {{condition: service_completed_successfully}}
    ports: ["${{PLAIT_BIND:-127.0.0.1}}:9090:9090"]
    networks: {networks}
    volumes: ["./prometheus:/etc/prometheus:ro", "prometheus:/prometheus", "secrets:/run/plait:ro"]

  grafana:  # under a profile, for its image is the one that cannot be built here
    image: ${{GRAFANA_IMAGE:-grafana/grafana:11.4.0}}
    profiles: [grafana]
    restart: unless-stopped
    environment:
      GF_SECURITY_ADMIN_PASSWORD__FILE: /run/plait/grafana-password
      GF_USERS_ALLOW_SIGN_UP: "false"
      GF_ANALYTICS_REPORTING_ENABLED: "false"
    healthcheck: {{test: [CMD, wget, -q, -O, /dev/null, "http://127.0.0.1:3000/api/health"], interval: 10s, timeout: 10s, start_period: 180s}}
    depends_on:
      prometheus: {{condition: service_healthy}}
    ports: ["${{PLAIT_BIND:-127.0.0.1}}:3000:3000"]
    networks: [{first_network}]
    volumes: ["./grafana/provisioning:/etc/grafana/provisioning:ro", "./grafana/dashboards:/etc/grafana/dashboards:ro", "grafana:/var/lib/grafana", "secrets:/run/plait:ro"]

  # --- analytics: Spark's tables of the telemetry are at http://127.0.0.1:4681/analytics ---------------------------

  analytics:
    image: ${{PLAIT_ANALYTICS_IMAGE:-plait-analytics:0.1.0}}
    build: {{context: .., dockerfile: docker/Dockerfile, target: analytics, args: {{KINDS: analytics}}}}
    command: [analyze, live, /telemetry, --out, /lake, --every, "5"]
    init: true
    read_only: true
    tmpfs: ["/tmp:size=1g"]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    restart: unless-stopped
    stop_grace_period: 60s
    healthcheck: {{test: [CMD, python3, -I, -S, /opt/plait/ready.py, fresh, /lake/live.json, "120"], interval: 10s, timeout: 10s, start_period: 180s}}
    depends_on:
      init: {{condition: service_completed_successfully}}
    networks: [spark]
    volumes: ["telemetry:/telemetry:ro", "lake:/lake"]

networks:
{all_networks}
  spark: {{internal: true}}

volumes:
{data_volumes}
  telemetry: {{}}
  secrets: {{}}
  keys: {{}}
  prometheus: {{}}
  grafana: {{}}
  lake: {{}}
"""

RELAYED: Final = """\
  {name}:
    environment:
      PLAIT_BROKER__OVERLAY__LINKS: {links}
"""

RELAY: Final = """\
  {name}:
    image: ${{PLAIT_IMAGE:-plait-broker:0.1.0}}
    entrypoint: [sh, -euc]
    command:
      - |
        plait chaos relay --listen 0.0.0.0:4679 --to {near}:4680 --control 0.0.0.0:4698 &
        exec plait chaos relay --listen 0.0.0.0:4680 --to {far}:4680 --control 0.0.0.0:4699
    read_only: true
    cap_drop: [ALL]
    restart: unless-stopped
    healthcheck: {{test: [CMD, python3, -I, -S, /opt/plait/ready.py, tcp, "4699"], interval: 30s, timeout: 10s, start_period: 180s}}
    networks: [{network}]
"""

CLUSTER: Final = """\
# Written by `plait gen compose`. Spark as a cluster, a master and two workers, and the same job submitted to it:
#   docker compose -f compose.yaml -f compose.cluster.yaml up -d
# Their network has no other members, because everyone who reaches a Spark master can run programs on it.
x-spark: &spark
  image: ${PLAIT_ANALYTICS_IMAGE:-plait-analytics:0.1.0}
  entrypoint: [spark-class]
  environment: {SPARK_DAEMON_MEMORY: 256m}
  init: true
  read_only: true
  tmpfs: ["/tmp:size=1g"]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  restart: unless-stopped
  networks: [spark]

x-worker: &worker
  <<: *spark
  command: [org.apache.spark.deploy.worker.Worker, --cores, "1", --memory, 1g, --work-dir, /tmp/work, "spark://spark-master:7077"]
  healthcheck: {test: [CMD, python3, -I, -S, /opt/plait/ready.py, tcp, "8081"], interval: 10s, timeout: 10s, start_period: 180s}
  depends_on:
    spark-master: {condition: service_healthy}
  volumes: ["telemetry:/telemetry:ro", "lake:/lake"]

services:
  spark-master:
    <<: *spark
    command: [org.apache.spark.deploy.master.Master, --host, spark-master, --port, "7077"]
    healthcheck: {test: [CMD, python3, -I, -S, /opt/plait/ready.py, tcp, "spark-master:7077"], interval: 10s, timeout: 10s, start_period: 180s}

  spark-worker-1:
    <<: *worker

  spark-worker-2:
    <<: *worker

  analytics:
    command: [analyze, live, /telemetry, --out, /lake, --every, "5", --master, "spark://spark-master:7077"]
    depends_on:
      spark-worker-1: {condition: service_healthy}
      spark-worker-2: {condition: service_healthy}
"""
