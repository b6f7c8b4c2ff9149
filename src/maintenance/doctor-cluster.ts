/** The checks in `pipectl doctor` of a cluster's servers, and of the settings that its nodes must share. */
import { frameHeadBytes, streamName } from '../cluster/jetstream/frames.ts'
import type { InspectedDatabase } from '../cluster/postgresql/inspect.ts'
import { messageOf } from '../platform/error-code.ts'
import { bytes, counted } from '../platform/quantities.ts'
import type { Settings } from '../settings/settings.ts'
import type { ClusterSettings } from '../stores/cluster-settings.ts'
import { type Check, checkNamed } from './check.ts'
import { sealingKeyOf } from './data-dir.ts'
import { copyKey } from './node-dir.ts'

/** Above this limit, displayed times differ visibly between nodes. No decision depends on a node's own clock. */
const skewMs = 1_000

export async function clusterChecks(
  settings: Settings,
  cluster: ClusterSettings,
  { env, isRunning }: { env: NodeJS.ProcessEnv; isRunning: boolean },
): Promise<Check[]> {
  const { inspectPostgres } = await import('../cluster/postgresql/inspect.ts')
  const database = await orFailed('PostgreSQL', 'metadata.url', () => inspectPostgres(cluster.metadata.url))
  return [
    ...('result' in database
      ? [database]
      : [
          databaseCheck(database),
          commitCheck(database),
          clockCheck(database),
          await keyCheck(settings, env, database),
          nodesCheck(cluster, database, isRunning),
          ...alertsCheck(database),
        ]),
    ...(await natsChecks(settings, cluster)),
  ]
}

async function orFailed<T extends object>(
  name: string,
  setting: string,
  look: () => Promise<T>,
): Promise<T | Check> {
  try {
    return await look()
  } catch (error) {
    return checkNamed(name).fail(
      messageOf(error),
      `start the server, or correct ${setting}; the daemon retries for 30 s, then systemd restarts it`,
    )
  }
}

function databaseCheck({ label, version, metadata }: InspectedDatabase): Check {
  const check = checkNamed('PostgreSQL')
  if (metadata === null)
    return check.warn(
      `${label}, version ${version}: it contains no pipectl data`,
      'run `pipectl init` on one node, once',
    )
  return check.ok(`${label}, version ${version}, ${counted(metadata.workspaces, 'workspace')}`)
}

function commitCheck({ synchronousCommit }: InspectedDatabase): Check {
  const check = checkNamed('synchronous_commit')
  if (synchronousCommit === 'off')
    return check.fail(
      'is off: confirmed changes can be lost, and the daemon does not start',
      'set synchronous_commit = on for the database or the user of metadata.url',
    )
  if (synchronousCommit === 'local')
    return check.warn(
      'is local: a change is on the disk of the primary, and a failover to a standby can lose it',
      'set it to on, with synchronous_standby_names, if you fail over',
    )
  return check.ok(`is ${synchronousCommit}`)
}

function clockCheck({ clockOffsetMs }: InspectedDatabase): Check {
  const check = checkNamed('clock')
  const apart = `${(Math.abs(clockOffsetMs) / 1000).toFixed(1)} s ${clockOffsetMs > 0 ? 'behind' : 'ahead of'} PostgreSQL's`
  if (Math.abs(clockOffsetMs) <= skewMs) return check.ok(`within ${skewMs / 1000} s of PostgreSQL's`)
  return check.warn(
    `this host's is ${apart}: displayed times differ from node to node`,
    'synchronize the clocks of all hosts with NTP (chrony, systemd-timesyncd)',
  )
}

async function keyCheck(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  { metadata }: InspectedDatabase,
): Promise<Check> {
  const check = checkNamed('sealing key')
  try {
    const key = await sealingKeyOf(settings, env, { whenMissing: copyKey })
    if (metadata === null) return check.ok('exists and is readable only by its owner')
    if (metadata.isSealedWith(key)) return check.ok('belongs to the cluster: it opens the stored secrets')
    return check.fail('does not belong to the cluster: the daemon does not start with it', copyKey)
  } catch (error) {
    if (metadata === null && settings['secrets.key_file'] === null)
      return check.ok('is created by `pipectl init`')
    return check.fail(messageOf(error), 'without it the daemon does not start')
  }
}

function nodesCheck(
  { nodeName, name: cluster }: ClusterSettings,
  { metadata }: InspectedDatabase,
  isRunning: boolean,
): Check {
  const check = checkNamed('nodes')
  const nodes = metadata?.nodes ?? []
  const names = nodes.map((node) => node.name)
  const twice = names.find((one, index) => names.indexOf(one) !== index)
  const give = 'give each node its own node.name'
  if (twice !== undefined)
    return check.warn(`${names.filter((one) => one === twice).length} nodes have the name ${twice}`, give)
  if (!isRunning && names.includes(nodeName))
    return check.warn(`another node already has the name ${nodeName}, and this one would have it too`, give)
  const here = `this one is ${nodeName} of cluster ${cluster}`
  return check.ok(names.length === 0 ? `none is running; ${here}` : `${names.join(', ')}; ${here}`)
}

/** A hint, not an error. */
function alertsCheck({ metadata }: InspectedDatabase): Check[] {
  if (metadata === null) return []
  const { workspaces, workspacesWithAlerts } = metadata
  const set = `set up in ${workspacesWithAlerts} of ${counted(workspaces, 'workspace')}`
  return [checkNamed('alerts').ok(workspacesWithAlerts === 0 ? 'none are set up: `pipectl alerts set`' : set)]
}

async function natsChecks(settings: Settings, cluster: ClusterSettings): Promise<Check[]> {
  const { inspectNats } = await import('../cluster/nats/inspect.ts')
  const stream = streamName(cluster.name)
  const found = await orFailed('NATS', 'buffer.nats', () => inspectNats(cluster.nats, stream))
  if ('result' in found) return [found]
  const { version, maxPayload, jetStream } = found
  const where = `nats-server ${version} at ${cluster.nats.servers.join(', ')}`
  const needed = settings['ingest.max_body_bytes'] + frameHeadBytes
  const checks = [checkNamed('NATS').ok(where), payloadCheck(maxPayload, needed)]
  if (typeof jetStream === 'string')
    return [
      ...checks,
      checkNamed('JetStream').fail(
        jetStream,
        'start nats-server with jetstream in its configuration (or -js)',
      ),
    ]
  return [
    ...checks,
    ...(cluster.replicas === 1 ? [] : [await versionsCheck(cluster, jetStream.stream)]),
    streamCheck(stream, jetStream.stream, cluster),
    durabilityCheck(cluster, version),
  ]
}

async function versionsCheck({ nats, replicas }: ClusterSettings, stream: FoundStream): Promise<Check> {
  const { oldServersText, serverVersions, tooOldForReplicas } = await import('../cluster/nats/versions.ts')
  const check = checkNamed('NATS versions')
  const found = await serverVersions(nats)
  const old = tooOldForReplicas(found)
  const next = 'install a newer nats-server on them, one after the other'
  if (old.length > 0)
    return stream !== null && stream.replicas >= replicas
      ? check.warn(oldServersText(old), next)
      : check.fail(
          `${oldServersText(old)}: no stream is created, and the daemon does not start`,
          `${next}, or set cluster.replicas = 1`,
        )
  const known = found.flatMap(({ version }) => version ?? [])
  const versions = [...new Set(known)].join(', ')
  const silent = found.flatMap(({ server, version }) => (version === null ? [server] : []))
  if (silent.length === 0) return check.ok(versions)
  return check.warn(
    `${versions === '' ? 'none responds' : versions}; unknown for ${silent.join(', ')}`,
    'start the nats-servers that are down',
  )
}

function payloadCheck(maxPayload: number, needed: number): Check {
  const check = checkNamed('max_payload')
  if (maxPayload >= needed) return check.ok(`${bytes(maxPayload)}: the largest body fits`)
  return check.fail(
    `${bytes(maxPayload)}, and the largest body (ingest.max_body_bytes) needs ${bytes(needed)}: the daemon does not start`,
    `set max_payload: ${needed} in the configuration of every nats-server, or lower ingest.max_body_bytes`,
  )
}

type FoundStream = Exclude<
  Awaited<ReturnType<typeof import('../cluster/nats/inspect.ts')['inspectNats']>>['jetStream'],
  string
>['stream']

function streamCheck(name: string, stream: FoundStream, { replicas }: ClusterSettings): Check {
  const check = checkNamed('JetStream')
  if (stream === null) return check.ok(`is enabled; the first node that starts creates the stream ${name}`)
  const { bytes: size, maxBytes, currentReplicas, hasLeader } = stream
  const full = `${bytes(size)} of ${bytes(maxBytes)}`
  if (!hasLeader)
    return check.fail(
      `the stream ${name} has no leader: ingest responds with 503`,
      'start the nats-servers that are down',
    )
  if (stream.replicas !== replicas)
    return check.warn(
      `the stream ${name} has ${counted(stream.replicas, 'replica')}, and cluster.replicas is ${replicas}`,
      'set the same cluster.replicas on every node: a node creates missing replicas when it starts',
    )
  if (currentReplicas < stream.replicas)
    return check.warn(
      `${currentReplicas} of ${stream.replicas} replicas of the stream ${name} are up to date, ${full}`,
      'start the nats-servers that are down; a restarted one catches up by itself',
    )
  return check.ok(`stream ${name}, ${counted(stream.replicas, 'replica')}, ${full}`)
}

/** The server does not report `sync_interval` to clients. */
function durabilityCheck({ replicas }: ClusterSettings, version: string): Check {
  const check = checkNamed('what 202 means')
  const always = isBefore(version, 2, 10)
    ? 'sync_interval: always (nats-server 2.10 or newer)'
    : 'sync_interval: always'
  if (replicas === 3)
    return check.ok(
      `two of three nats-servers have written the message, and with ${always} in their configuration synced it to their disks. Without it they sync every sync_interval (2 minutes by default), and a power cut of two at once loses later messages`,
    )
  return check.warn(
    `the one nats-server has written the message, and with ${always} in its configuration synced it to its disk. Without it a power cut of its machine loses the messages since the last sync, every sync_interval (2 minutes by default)`,
    'set sync_interval: always, or use three nats-servers and cluster.replicas = 3',
  )
}

function isBefore(version: string, major: number, minor: number): boolean {
  const [a = 0, b = 0] = version.split('.').map(Number)
  return a < major || (a === major && b < minor)
}
