# vitreous serve on a CPU, as nobody in particular. See docs/deploy.md.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY vitreous vitreous
RUN python -m venv /opt/vitreous \
 && /opt/vitreous/bin/pip install --no-cache-dir torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu \
 && /opt/vitreous/bin/pip install --no-cache-dir --constraint constraints.txt '.[files,export,powder,refine,insight,serve]'

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home vitreous
COPY --from=build /opt/vitreous /opt/vitreous
USER 10001
WORKDIR /models
ENV PATH=/opt/vitreous/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MPLCONFIGDIR=/tmp/matplotlib
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", \
  "import urllib.request as r; r.urlopen(r.Request('http://127.0.0.1:8000/readyz'), timeout=4)"]
ENTRYPOINT ["vitreous", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["--powder", "--name", "localhost"]
