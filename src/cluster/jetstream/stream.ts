/**
 * Creates or checks the streams of the buffer at the start of every node: one holds the frames, one the checkpoints of
 * the pipes' totals. Nodes can start at the same time, because JetStream accepts the creation of an existing stream
 * with the same settings.
 *
 *   missing                created
 *   ours                   `max_bytes`, `max_age`, `duplicate_window` and more replicas are updated from the settings
 *   of another owner       ConfigError with every difference; nothing is changed
 *   recreated or truncated ConfigError, see `rejectLostStream`; never ignored
 *   no leader, no response retried for 30 s, then StreamUnavailableError: the caller retries
 *
 * Sequences of frames must never be reused: lanes would take new messages for delivered ones.
 */
import { setTimeout as wait } from 'node:timers/promises'
import {
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamManager,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import Type from 'typebox'
import { fits } from '../../contract/validate.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { messageOf } from '../../platform/error-code.ts'
import { hourMs } from '../../platform/quantities.ts'
import type { NatsConnection } from '../nats/headers.ts'
import { oldServersText, type ServerVersion, serverVersions, tooOldForReplicas } from '../nats/versions.ts'
import { parsed } from '../protocol.ts'
import {
  bufferSubjects,
  frameHeadBytes,
  streamName,
  streamSeqOf,
  totalsStreamName,
  totalsSubjects,
} from './frames.ts'

/** The version of the description. */
const formatVersion = 1
const startWithinMs = 30_000
const retryMs = 250
const requestTimeoutMs = 5_000
const MiB = 1024 * 1024
const nanosPerMs = 1_000_000
/** A pipe's newest checkpoint is rewritten before it is this much older than the oldest message. */
export const totalsMarginHours = 24
/** Only frames with idempotency keys have ids (settlement.ts). The window must not exceed `max_age`. */
const duplicateWindowMs = 120_000

/** Error codes of NATS. */
const codes = {
  streamNotFound: 10059,
  nameInUse: 10058,
  subjectsOverlap: 10065,
  notEnabledForAccount: 10039,
  notEnabled: 10076,
  replicasWithoutCluster: 10074,
  noPeers: 10005,
  /** The limit of the account, of the servers' disks, or of one stream was reached. */
  noRoom: [10002, 10023, 10026, 10027, 10028, 10047, 10120, 10122],
}

/** The servers respond, but JetStream did not respond in time. The settings are not at fault. */
export class StreamUnavailableError extends Error {
  constructor(message: string, cause: unknown) {
    super(message, { cause })
    this.name = 'StreamUnavailableError'
  }
}

export interface OpenedStreams {
  /** The state of the buffer's stream. */
  info: StreamInfo
  /** Servers that are too old for the stream's three replicas; usually none. */
  oldServers: ServerVersion[]
}

/** Creates or checks both streams. Throws ConfigError, StreamUnavailableError. */
export async function openStreams(connection: NatsConnection, spec: JetStreamSpec): Promise<OpenedStreams> {
  checkMaxPayload(connection, spec)
  const manager = await openManager(connection, spec)
  const oldServers = spec.replicas === 1 ? [] : tooOldForReplicas(await serverVersions(spec.nats))
  if (oldServers.length > 0) await withinStart(spec, () => rejectNewReplicas(manager, spec, oldServers))
  await withinStart(spec, () => openStream(manager, spec, totalsConfig(spec)))
  const info = await withinStart(spec, () => openStream(manager, spec, bufferConfig(spec)))
  await rejectLostStream(manager, spec, info)
  return { info, oldServers }
}

/**
 * The sequence of the newest frame; 0 when there is none, or no stream. Throws ConfigError for another owner's stream,
 * and StreamUnavailableError.
 */
export async function lastFrameOf(connection: NatsConnection, spec: JetStreamSpec): Promise<number> {
  const manager = await openManager(connection, spec)
  const wanted = bufferConfig(spec)
  const found = await withinStart(spec, () => findStream(manager, wanted.name))
  if (found === null) return 0
  checkOwner(found.config, wanted)
  return found.state.last_seq
}

/** Throws ConfigError when JetStream is not enabled, and StreamUnavailableError. */
export function openManager(connection: NatsConnection, spec: JetStreamSpec): Promise<JetStreamManager> {
  return withinStart(spec, () => jetstreamManager(connection, { timeout: requestTimeoutMs }))
}

/** Existing replicas stay: rejecting the start would not update their servers, but would stop ingest. */
async function rejectNewReplicas(
  manager: JetStreamManager,
  { cluster, replicas }: JetStreamSpec,
  oldServers: readonly ServerVersion[],
): Promise<void> {
  const found = await findStream(manager, streamName(cluster))
  if (found !== null && found.config.num_replicas >= replicas) return
  throw new ConfigError(
    `buffer.nats: ${oldServersText(oldServers)}. Install a newer nats-server, or set cluster.replicas = 1`,
  )
}

export type WantedConfig = Pick<
  StreamConfig,
  | 'name'
  | 'description'
  | 'subjects'
  | 'retention'
  | 'storage'
  | 'discard'
  | 'max_bytes'
  | 'max_age'
  | 'max_msgs'
  | 'max_msgs_per_subject'
  | 'max_msg_size'
  | 'num_replicas'
  | 'allow_direct'
  | 'duplicate_window'
>

/** The configuration of the stream with the frames. */
export function bufferConfig(spec: JetStreamSpec): WantedConfig {
  return {
    ...commonConfig(spec, spec.undeliveredHours * hourMs),
    name: streamName(spec.cluster),
    subjects: [bufferSubjects(spec.cluster)],
    discard: DiscardPolicy.New,
    max_bytes: spec.maxBytes,
  }
}

/** The configuration of the stream with the checkpoints. */
export function totalsConfig(spec: JetStreamSpec): WantedConfig {
  return {
    ...commonConfig(spec, (spec.undeliveredHours + totalsMarginHours) * hourMs),
    name: totalsStreamName(spec.cluster),
    subjects: [totalsSubjects(spec.cluster)],
    discard: DiscardPolicy.Old,
    max_bytes: Math.max(16 * MiB, Math.round(spec.maxBytes / 64)),
  }
}

function commonConfig({ identity, replicas }: JetStreamSpec, maxAgeMs: number) {
  return {
    description: JSON.stringify({ pipectl: formatVersion, data_dir_id: identity?.dataDirId ?? null }),
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    max_age: maxAgeMs * nanosPerMs,
    max_msgs: -1,
    max_msgs_per_subject: -1,
    max_msg_size: -1,
    num_replicas: replicas,
    allow_direct: true,
    duplicate_window: Math.min(duplicateWindowMs, maxAgeMs) * nanosPerMs,
  }
}

/** The settings that can be changed on an existing stream. */
const updatable = new Set<keyof WantedConfig>(['max_bytes', 'max_age', 'duplicate_window', 'num_replicas'])

async function openStream(
  manager: JetStreamManager,
  spec: JetStreamSpec,
  wanted: WantedConfig,
): Promise<StreamInfo> {
  const found = (await findStream(manager, wanted.name)) ?? (await add(manager, spec, wanted))
  checkOwner(found.config, wanted)
  const different = differences(found.config, wanted)
  const fixed = different.filter((name) => !updatable.has(name))
  if (fixed.length > 0) {
    const list = fixed.map((name) => `${name} is ${text(found.config[name])}, not ${text(wanted[name])}`)
    throw new ConfigError(
      `the stream ${wanted.name} has different settings than pipectl expects: ${list.join('; ')}. Give the cluster another cluster.name, or change the stream with the nats command`,
    )
  }
  if (found.config.num_replicas > wanted.num_replicas)
    throw new ConfigError(
      `cluster.replicas is ${wanted.num_replicas}, and the stream ${wanted.name} has ${found.config.num_replicas}: set cluster.replicas = ${found.config.num_replicas}, or run \`nats stream edit ${wanted.name} --replicas=${wanted.num_replicas}\` if you want fewer copies`,
    )
  const updated =
    different.length === 0
      ? found
      : await inWords(spec, wanted, () => manager.streams.update(wanted.name, { ...found.config, ...wanted }))
  if (updated.cluster !== undefined && updated.cluster.leader === undefined)
    throw new Error(`the stream ${wanted.name} has no leader`)
  return updated
}

/** Null when there is no such stream. */
export async function findStream(manager: JetStreamManager, name: string): Promise<StreamInfo | null> {
  try {
    return await manager.streams.info(name)
  } catch (error) {
    if (apiCode(error) === codes.streamNotFound) return null
    throw error
  }
}

async function add(
  manager: JetStreamManager,
  spec: JetStreamSpec,
  wanted: WantedConfig,
): Promise<StreamInfo> {
  try {
    return await inWords(spec, wanted, () => manager.streams.add(wanted))
  } catch (error) {
    // Another node has just created it with other settings.
    if (apiCode(error) === codes.nameInUse) return await manager.streams.info(wanted.name)
    throw error
  }
}

/** Converts a permanent rejection of JetStream into a ConfigError. */
async function inWords<T>(spec: JetStreamSpec, wanted: WantedConfig, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    const code = apiCode(error)
    const said = messageOf(error)
    if (code === codes.subjectsOverlap)
      throw new ConfigError(
        `another stream has the subjects ${wanted.subjects.join(', ')} (${said}): give the cluster another cluster.name`,
        error,
      )
    if (code === codes.replicasWithoutCluster)
      throw new ConfigError(
        `cluster.replicas is ${spec.replicas}, and ${spec.nats.servers.join(', ')} is not a cluster of nats-servers: three are needed`,
        error,
      )
    if (code !== null && codes.noRoom.includes(code))
      throw new ConfigError(
        `JetStream has no room for the stream ${wanted.name} with ${wanted.max_bytes} bytes (buffer.max_bytes is ${spec.maxBytes}): ${said}. Lower buffer.max_bytes, or raise max_file_store of nats-server or the account's limit`,
        error,
      )
    throw error
  }
}

function checkOwner(found: StreamConfig, { name, description }: WantedConfig): void {
  const theirs = parseDescription(found.description)
  const ours = parseDescription(description)
  if (theirs === null)
    throw new ConfigError(
      `the stream ${name} was not made by pipectl (its description is ${text(found.description ?? '')}): give the cluster another cluster.name`,
    )
  if (theirs.pipectl > formatVersion)
    throw new ConfigError(
      `the stream ${name} has format ${theirs.pipectl}, and this version of pipectl knows ${formatVersion}: upgrade pipectl`,
    )
  if (theirs.data_dir_id !== ours?.data_dir_id)
    throw new ConfigError(
      `the stream ${name} belongs to the metadata ${theirs.data_dir_id}, and metadata.url has ${ours?.data_dir_id}: give the cluster another cluster.name, or set metadata.url to the database that belongs to it`,
    )
}

/** A missing identity is null. */
const ownDescription = Type.Object({
  pipectl: Type.Number(),
  data_dir_id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
})

/** Null when pipectl did not write it. */
function parseDescription(description = ''): { pipectl: number; data_dir_id: string | null } | null {
  const found = parsed(description)
  return fits(ownDescription, found) ? { data_dir_id: null, ...found } : null
}

function differences(found: StreamConfig, wanted: WantedConfig): (keyof WantedConfig)[] {
  const names = Object.keys(wanted) as (keyof WantedConfig)[]
  // The owner and the format are compared separately.
  return names.filter((name) => name !== 'description' && text(found[name]) !== text(wanted[name]))
}

function text(value: unknown): string {
  return JSON.stringify(value)
}

function checkMaxPayload(connection: NatsConnection, { maxBodyBytes }: JetStreamSpec): void {
  const maxPayload = connection.info?.max_payload ?? 0
  const needed = maxBodyBytes + frameHeadBytes
  if (maxPayload < needed)
    throw new ConfigError(
      `max_payload of nats-server is ${maxPayload} bytes, and a body of ingest.max_body_bytes (${maxBodyBytes}) needs ${needed} with its head: set max_payload: ${needed} in the configuration of every nats-server, or lower ingest.max_body_bytes to ${Math.max(0, maxPayload - frameHeadBytes)}`,
    )
}

/**
 * Lanes have seen messages that this stream never had: it was recreated, restored from an old copy, or is on other
 * servers. Appending would reuse sequences that lanes take for delivered, and the new messages would never be
 * delivered. On one machine, a buffer whose disk lost its end continues after the gap and reports how much is missing.
 * Here an empty stream usually means the wrong server, account or cluster.name, while the data still exists. So an
 * operator must declare it lost (`pipectl nodes renumber`), which starts new numbers. (Trap: `nats stream purge --seq`
 * on an empty stream looks like a solution, but with three replicas nats-server 2.9.10 then lost acknowledged
 * messages.)
 */
async function rejectLostStream(
  manager: JetStreamManager,
  spec: JetStreamSpec,
  info: StreamInfo,
): Promise<void> {
  const knownStreamSeq = streamSeqOf(spec.knownSeq ?? 0)
  const { name } = info.config
  let { last_seq: lastSeq } = info.state
  // A newly elected leader might not have read its whole log yet.
  for (let left = 20; lastSeq < knownStreamSeq && left > 0; left -= 1) {
    await wait(retryMs)
    lastSeq = (await withinStart(spec, () => manager.streams.info(name))).state.last_seq
  }
  if (lastSeq >= knownStreamSeq) return
  throw new ConfigError(
    `the stream ${name} at ${spec.nats.servers.join(', ')} ends with frame ${lastSeq}, and lanes have delivered frame ${knownStreamSeq}: messages are lost, or this is another stream. Check buffer.nats and cluster.name, or restore the stream. To continue without the missing messages, stop every node and run \`pipectl nodes renumber\``,
  )
}

/** Retries while JetStream has no leader or does not respond. */
export async function withinStart<T>(spec: JetStreamSpec, run: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + startWithinMs
  for (;;) {
    try {
      return await run()
    } catch (error) {
      if (error instanceof ConfigError) throw error
      requireEnabled(spec, error)
      if (performance.now() >= deadline) throw notReady(spec, error)
      await wait(retryMs)
    }
  }
}

function requireEnabled({ nats }: JetStreamSpec, error: unknown): void {
  const code = apiCode(error)
  const isNotEnabled = error instanceof Error && error.name === 'JetStreamNotEnabled'
  if (!isNotEnabled && code !== codes.notEnabledForAccount && code !== codes.notEnabled) return
  const account = code === null ? '' : ' for this account'
  throw new ConfigError(
    `buffer.nats: JetStream is not enabled at ${nats.servers.join(', ')}${account}: start nats-server with jetstream in its configuration (or -js)`,
    error,
  )
}

function notReady({ nats, replicas }: JetStreamSpec, error: unknown): StreamUnavailableError {
  const reason = messageOf(error)
  const hint =
    apiCode(error) === codes.noPeers
      ? ` (cluster.replicas is ${replicas}: as many nats-servers with JetStream must run)`
      : ''
  return new StreamUnavailableError(
    `JetStream at ${nats.servers.join(', ')} has not been ready for ${startWithinMs / 1000} s: ${reason}${hint}`,
    error,
  )
}

/** The code of a JetStream error; null for other errors. */
export function apiCode(error: unknown): number | null {
  return error instanceof JetStreamApiError ? error.code : null
}
