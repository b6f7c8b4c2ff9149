/** The routes about the service itself, which take no key: health, readiness and the OpenAPI document. */
import { readFileSync } from 'node:fs'
import type { NotReadyReason, ReadyWarning } from '../contract/ready-words.ts'
import type { Logger } from '../log.ts'
import type { Route } from './route.ts'

/** Since the start. */
export interface Damage {
  damagedSegments: number
  missingSegments: number
  /** Acknowledged messages, whether the log lost its end or a part within. */
  lostMessages: number
}

export interface ServiceRoutesOptions {
  now(): number
  /** True while the buffer rejects appends. */
  isBufferRejecting(): Promise<boolean>
  /** True while it does so for lack of disk space. */
  isDiskFull(): Promise<boolean>
  /** What damage of the disk the buffer knows of. */
  damage(): Promise<Damage>
  /** Rejects when metadata cannot be read. */
  readMetadata(): Promise<unknown>
  isStopping(): boolean
  /** Started with `serve --safe`: nothing is delivered. */
  isSafe: boolean
  /** The settings `public_url` and `public_data_url`. */
  publicUrls: { management: string | null; data: string | null }
  /** The port of ingest and pull where it is not the one of management; else null. Known once it listens. */
  dataPort(): number | null
  log: Logger
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
        const reasons = await notReadyReasons(options)
        const found = warningsOf(await options.damage(), options.isSafe)
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

/** Contract "Health". */
async function notReadyReasons(options: ServiceRoutesOptions): Promise<NotReadyReason[]> {
  const reasons: NotReadyReason[] = []
  if (await options.isBufferRejecting()) reasons.push('buffer_unavailable')
  if (await options.isDiskFull()) reasons.push('disk_full')
  try {
    await options.readMetadata()
  } catch (error) {
    options.log.error({ err: error }, 'metadata.unreachable')
    reasons.push('metadata_unreachable')
  }
  if (options.isStopping()) reasons.push('shutting_down')
  return reasons
}

function warningsOf(
  { damagedSegments, missingSegments, lostMessages }: Damage,
  isSafe: boolean,
): ReadyWarning[] {
  const warnings: ReadyWarning[] = []
  if (damagedSegments > 0) warnings.push('segments_damaged')
  if (missingSegments > 0) warnings.push('segments_missing')
  if (lostMessages > 0) warnings.push('messages_lost')
  if (isSafe) warnings.push('safe_mode')
  return warnings
}

/** Of the package, with the addresses of this daemon. Making it from the route table takes 0.2 s of CPU. */
function openapiDocument(): (urls: { management: string; data: string }) => Buffer {
  const file = new URL('../../openapi/management-v1.openapi.yaml', import.meta.url)
  const text = readFileSync(file, 'utf8')
  return ({ management, data }) =>
    Buffer.from(
      text
        .replace(/(?<= base_url:\n +default: ).*/g, () => management)
        .replace(/(?<= data_url:\n +default: ).*/g, () => data),
    )
}

const hostPattern = /^([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?$/i

/** The settings, else the request's own Host. */
function serverUrls({ publicUrls, dataPort }: ServiceRoutesOptions, host: string) {
  const [given = '127.0.0.1:8080', name = '127.0.0.1'] = hostPattern.exec(host) ?? []
  const management = publicUrls.management ?? `http://${given}`
  const port = dataPort()
  const data = publicUrls.data ?? (port === null ? management : `http://${name}:${port}`)
  return { management, data }
}
