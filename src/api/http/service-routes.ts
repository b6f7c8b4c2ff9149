/** The routes about the service itself, which take no key: health, readiness and the OpenAPI document. */
import { readFileSync } from 'node:fs'
import { type ReadinessSources, readiness } from './readiness.ts'
import type { Route } from './route.ts'

export interface ServiceRoutesOptions extends ReadinessSources, UrlSources {
  now(): number
}

export interface UrlSources {
  /** The settings `public_url` and `public_data_url`. */
  publicUrls: { management: string | null; data: string | null }
  /** The port of ingest and pull if it differs from that of management, else null. Known once the server listens. */
  dataPort(): number | null
  /** Which of the two use TLS. */
  tls?: { management: boolean; data: boolean }
}

export function serviceRoutes(options: ServiceRoutesOptions): Route[] {
  const served = { method: 'GET', surface: 'all', auth: 'none' } as const
  const document = openapiDocument()
  return [
    {
      ...served,
      path: '/v1/health',
      operationId: 'getHealth',
      handler: async () => ({
        status: 200,
        body: { status: 'ok', timestamp: new Date(options.now()).toISOString() },
      }),
    },
    {
      ...served,
      path: '/v1/ready',
      operationId: 'getReady',
      handler: async () => {
        const { reasons, warnings: found } = await readiness(options)
        const warnings = found.length === 0 ? {} : { warnings: found }
        if (reasons.length === 0) return { status: 200, body: { status: 'ready', ...warnings } }
        return { status: 503, body: { status: 'not_ready', reasons, ...warnings } }
      },
    },
    {
      ...served,
      surface: 'management',
      path: '/openapi/management-v1.openapi.yaml',
      operationId: 'getOpenApi',
      handler: async ({ headers }) => ({
        status: 200,
        body: document(serverUrls(options, headers.host ?? '')),
        headers: [['Content-Type', 'application/yaml; charset=utf-8']],
      }),
    },
  ]
}

/**
 * Serves the OpenAPI document of the package with the addresses of this daemon. Generating it from the route table
 * would take 0.2 s of CPU. It is cut at the two addresses once, so that a request copies bytes and makes no texts of
 * half a megabyte.
 */
function openapiDocument(): (urls: { management: string; data: string }) => Buffer {
  const file = new URL('../../../openapi/management-v1.openapi.yaml', import.meta.url)
  const text = readFileSync(file, 'utf8')
  const addresses = [...text.matchAll(/(?<= (base|data)_url:\n +default: ).*/g)]
  const pieces: (Buffer | 'management' | 'data')[] = []
  let start = 0
  for (const { 0: address, 1: name, index } of addresses) {
    pieces.push(Buffer.from(text.slice(start, index)), name === 'base' ? 'management' : 'data')
    start = index + address.length
  }
  pieces.push(Buffer.from(text.slice(start)))
  return (urls) =>
    Buffer.concat(pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(urls[piece]) : piece)))
}

const hostPattern = /^([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?$/i

/** The URLs of the settings. Without them, those of the request's Host. */
export function serverUrls({ publicUrls, dataPort, tls }: UrlSources, host: string) {
  const [given = '127.0.0.1:8080', name = '127.0.0.1'] = hostPattern.exec(host) ?? []
  const management = publicUrls.management ?? `${schemeOf(tls?.management)}://${given}`
  const port = dataPort()
  const data = publicUrls.data ?? (port === null ? management : `${schemeOf(tls?.data)}://${name}:${port}`)
  return { management, data }
}

function schemeOf(hasTls = false): string {
  return hasTls ? 'https' : 'http'
}
