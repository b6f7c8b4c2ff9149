/**
 * The checks of `pipectl doctor`: conditions on this host that can impair a daemon, each with the action to take.
 * They change nothing, except for a small file that is written and removed to measure the disk.
 */
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { certificateFiles, surfaces } from '../api/surfaces.ts'
import { readCertificate } from '../api/tls/certificate-files.ts'
import { isSealedWith } from '../metadata/sqlite/offline.ts'
import { countAlerts } from '../metadata/sqlite/offline-alerts.ts'
import { ConfigError } from '../platform/config-error.ts'
import { messageOf } from '../platform/error-code.ts'
import { endOfSupport, otherNode, requireSoundSqliteAddon } from '../platform/node-bugs.ts'
import { bytes, count, counted } from '../platform/quantities.ts'
import { formatAddress } from '../settings/config.ts'
import type { ListenAddress, Settings } from '../settings/settings.ts'
import { type ClusterSettings, clusterSettings } from '../stores/cluster-settings.ts'
import { type Check, checkNamed } from './check.ts'
import { dataDirAt, sealingKeyOf } from './data-dir.ts'
import { bufferChecks } from './doctor-buffer.ts'
import { egressCheck } from './egress.ts'
import { isDaemonRunning } from './lock.ts'
import { requireNoStores } from './node-dir.ts'
import { tableFileChecks } from './table-files.ts'

const openFilesWanted = 65_536
/** Above this limit, requests wait noticeably for their 202. */
const slowFsyncMs = 20
const fsyncRounds = 20

export async function diagnose(settings: Settings, env: NodeJS.ProcessEnv): Promise<Check[]> {
  const isRunning = isDaemonRunning(dataDirAt(settings.data_dir))
  const cluster = clusterSettings(settings)
  return [
    ...(cluster === null
      ? await storeChecks(settings, env, isRunning)
      : await ofNode(settings, cluster, { env, isRunning })),
    geoCheck(settings['geoip.database']),
    await portCheck('listen', settings.listen, isRunning),
    ...(settings.data_listen ? [await portCheck('data_listen', settings.data_listen, isRunning)] : []),
    ...(settings['metrics.listen']
      ? [await portCheck('metrics.listen', settings['metrics.listen'], isRunning)]
      : []),
    ...(cluster === null ? [egressCheck(settings)] : []),
    ...surfaces(settings).flatMap(({ name }) => certificateCheck(settings, name)),
    openFilesCheck(),
    nodeCheck(),
  ]
}

/** The checks of a single machine, which stores everything in its data directory. */
async function storeChecks(settings: Settings, env: NodeJS.ProcessEnv, isRunning: boolean): Promise<Check[]> {
  const { data_dir: root } = settings
  return [
    dataDirCheck(root, isRunning),
    ...(existsSync(root) ? [diskCheck(settings), fsyncCheck(root)] : []),
    ...bufferChecks(root),
    ...tableFileChecks(root),
    await keyCheck(settings, env),
    ...alertsChecks(root),
    ...(await ofReplica(settings, env)),
  ]
}

/** The client of object stores is loaded only if there is a replica. */
async function ofReplica(settings: Settings, env: NodeJS.ProcessEnv): Promise<Check[]> {
  if (settings['replica.url'] === null) return []
  const { replicaChecks } = await import('./doctor-replica.ts')
  return await replicaChecks(settings, env)
}

async function ofNode(
  settings: Settings,
  cluster: ClusterSettings,
  host: { env: NodeJS.ProcessEnv; isRunning: boolean },
): Promise<Check[]> {
  const { clusterChecks } = await import('./doctor-cluster.ts')
  return [nodeDirCheck(settings.data_dir), ...(await clusterChecks(settings, cluster, host))]
}

function nodeDirCheck(root: string): Check {
  const check = checkNamed('data directory')
  try {
    requireNoStores(dataDirAt(root))
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return check.fail(error.message, 'run `pipectl migrate`, or use another data_dir for this node')
  }
  if (!existsSync(root)) return check.ok(`the daemon creates ${root}; it contains no messages`)
  const denied = notWritable(root)
  return denied === null ? check.ok(`${root}; it contains no messages`) : check.fail(...denied)
}

function notWritable(root: string): [string, string] | null {
  try {
    accessSync(root, constants.R_OK | constants.W_OK | constants.X_OK)
    return null
  } catch {
    return [
      `${root} cannot be written by this user`,
      'run doctor as the user of the daemon, or change the owner of the directory',
    ]
  }
}

/** Checks the current files. The metrics of the running daemon show which certificate it serves. */
function certificateCheck(settings: Settings, listener: string): Check[] {
  const files = certificateFiles(settings, listener)
  if (files === null) return []
  const check = checkNamed(`certificate of ${listener}`)
  const renew = 'renew it; the daemon loads the new files by itself'
  try {
    const { expiresMs } = readCertificate(files)
    const at = new Date(expiresMs).toISOString()
    const days = Math.floor((expiresMs - Date.now()) / 86_400_000)
    if (days < 0) return [check.fail(`${files.certFile} expired on ${at}`, renew)]
    const words = `${files.certFile} expires on ${at}, in ${counted(days, 'day')}`
    return [days < warnDays ? check.warn(words, renew) : check.ok(words)]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return [check.fail(error.message, 'fix this error; a running daemon serves the previous certificate')]
  }
}

const warnDays = 14

function nodeCheck(): Check {
  const check = checkNamed('Node.js')
  try {
    requireSoundSqliteAddon()
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return check.fail(error.message, otherNode)
  }
  const ended = endOfSupport()
  if (ended !== null) {
    const words = `${process.version} has had no security fixes since ${ended}`
    return check.warn(words, otherNode)
  }
  return check.ok(process.version)
}

function dataDirCheck(root: string, isRunning: boolean): Check {
  const check = checkNamed('data directory')
  if (!existsSync(root)) return check.warn(`${root} does not exist`, `run: pipectl init --data-dir ${root}`)
  const denied = notWritable(root)
  if (denied !== null) return check.fail(...denied)
  if (!existsSync(dataDirAt(root).metadataFile)) {
    return check.warn(`${root} is not set up`, `run: pipectl init --data-dir ${root}`)
  }
  if ((statSync(root).mode & 0o007) !== 0) {
    return check.warn(`${root} can be read by other users`, `run: chmod 700 ${root}`)
  }
  return check.ok(`${root}, ${isRunning ? 'a daemon is running on it' : 'no daemon is running on it'}`)
}

/** A hint, not an error: operators who watch `/metrics` may need no alerts. Other checks report unreadable files. */
function alertsChecks(root: string): Check[] {
  const { metadataFile } = dataDirAt(root)
  if (!existsSync(metadataFile)) return []
  try {
    const { workspaces, withAlerts } = countAlerts(metadataFile)
    const all = withAlerts === workspaces ? '' : '; the others: `pipectl alerts set`'
    const words =
      withAlerts === 0
        ? 'none are set up: `pipectl alerts set`'
        : `set up in ${withAlerts} of ${counted(workspaces, 'workspace')}${all}`
    return [checkNamed('alerts').ok(words)]
  } catch {
    return []
  }
}

function diskCheck(settings: Settings): Check {
  const check = checkNamed('disk space')
  const disk = statfsSync(settings.data_dir)
  const free = disk.bavail * disk.bsize
  const least = settings['buffer.min_free_bytes']
  const room = `${bytes(free)} free`
  if (free < least) {
    return check.fail(
      `${room}, less than buffer.min_free_bytes (${bytes(least)}): ingest responds with 503`,
      'free disk space, or lower buffer.min_free_bytes',
    )
  }
  const wanted = settings['buffer.max_bytes']
  if (free < wanted) {
    return check.warn(
      `${room}, but the buffer can grow to ${bytes(wanted)}`,
      'use a larger disk, or lower buffer.max_bytes',
    )
  }
  return check.ok(room)
}

function fsyncCheck(root: string): Check {
  const check = checkNamed('fsync time')
  let directory: string
  try {
    directory = mkdtempSync(path.join(root, '.doctor-'))
  } catch {
    return check.fail(`nothing can be written to ${root}`, 'fix the data directory first')
  }
  try {
    const fd = openSync(path.join(directory, 'probe'), 'w')
    const times: number[] = []
    for (let round = 0; round < fsyncRounds; round += 1) {
      const started = performance.now()
      writeSync(fd, Buffer.alloc(4096))
      fsyncSync(fd)
      times.push(performance.now() - started)
    }
    closeSync(fd)
    times.sort((a, b) => a - b)
    const median = times[Math.floor(times.length / 2)] ?? 0
    const detail = `${median.toFixed(2)} ms (median), ${(times.at(-1) ?? 0).toFixed(2)} ms (maximum)`
    if (median <= slowFsyncMs) return check.ok(detail)
    return check.warn(detail, 'every 202 waits for it: move the data directory to a faster disk')
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

async function keyCheck(settings: Settings, env: NodeJS.ProcessEnv): Promise<Check> {
  const check = checkNamed('sealing key')
  const { metadataFile } = dataDirAt(settings.data_dir)
  const isSetUp = existsSync(metadataFile)
  if (settings['secrets.key_file'] === null && !isSetUp) return check.ok('is created with the data directory')
  try {
    const key = await sealingKeyOf(settings, env)
    if (!isSetUp) return check.ok('exists and is readable only by its owner')
    if (isSealedWith(metadataFile, key)) return check.ok('opens the stored secrets')
    return check.fail(
      `did not encrypt the secrets of ${metadataFile}: the daemon does not start with it`,
      'put back the right key or set secrets.key_file; if it is lost, run: pipectl secrets forget',
    )
  } catch (error) {
    return check.fail(
      messageOf(error),
      'without it the daemon does not start: put back the key of this data directory; if it is lost, run: pipectl secrets forget',
    )
  }
}

/**
 * Checks for the marker that every MaxMind DB has near its end. The daemon opens the complete file when it starts.
 */
function geoCheck(file: string | null): Check {
  const check = checkNamed('geolocation')
  if (file === null) return check.ok('off: geoip.database is not set')
  if (!existsSync(file)) {
    return check.warn(
      `${file} does not exist: geolocation fields are omitted`,
      'install the database, or unset geoip.database',
    )
  }
  try {
    const content = readFileSync(file)
    const mark = Buffer.from('abcdef4d61784d696e642e636f6d', 'hex')
    if (content.lastIndexOf(mark) === -1) throw new Error('it is not a MaxMind DB')
    const days = Math.floor((Date.now() - statSync(file).mtimeMs) / 86_400_000)
    const detail = `${file}, ${bytes(content.length)}, ${count(days)} days old`
    return days > 90
      ? check.warn(detail, 'replace it with a newer one: the locations of addresses change')
      : check.ok(detail)
  } catch (error) {
    return check.fail(
      `${file} cannot be used: ${messageOf(error)}`,
      'install a City-level .mmdb file, or unset geoip.database',
    )
  }
}

async function portCheck(name: string, address: ListenAddress, isRunning: boolean): Promise<Check> {
  const check = checkNamed(name)
  const where = formatAddress(address)
  if (address.port === 0) return check.ok(`${where}: any free port`)
  const error = await listenError(address)
  if (error === null) return check.ok(`${where} is free`)
  if (error === 'EADDRINUSE') {
    if (isRunning) return check.ok(`${where} is in use, presumably by the daemon of this data directory`)
    return check.fail(
      `${where} is in use by another program`,
      `find it with \`ss -ltnp\`, or choose another address for ${name}`,
    )
  }
  return check.fail(
    `cannot listen on ${where} (${error})`,
    error === 'EACCES' ? 'ports below 1024 need a privilege: use a higher one' : `correct ${name}`,
  )
}

function listenError({ host, port }: ListenAddress): Promise<string | null> {
  return new Promise((resolve) => {
    const server = net.createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)))
  })
}

/** The soft limit of this process. A service manager can set another limit for the daemon. */
function openFilesCheck(): Check {
  const check = checkNamed('open files')
  const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'utf8') : ''
  const soft = /^Max open files\s+(\d+|unlimited)/m.exec(limits)?.[1]
  if (soft === undefined) return check.ok('the limit is not known on this system')
  if (soft === 'unlimited' || Number(soft) >= openFilesWanted) return check.ok(`limit ${soft}`)
  return check.warn(
    `limit ${soft}: every connection uses one`,
    `raise it to ${openFilesWanted}: \`ulimit -n\`, or LimitNOFILE in the unit`,
  )
}
