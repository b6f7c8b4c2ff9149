/**
 * Connections must not take the last file descriptors: without a free one the daemon can open neither files nor
 * connections to destinations. A client takes a descriptor as soon as it connects, before it sends a byte, so the
 * checks of requests come too late for this.
 *
 *   accepting ──too few left──▶ full ──connections have closed──▶ accepting
 *
 * The binding of uWebSockets on Node 20 accepts every connection and does not report it. The only remedy is to stop
 * listening: the system then rejects new clients, connected ones are still served, and the engine closes silent ones
 * within 10 seconds. A few descriptors are held as a reserve and released at that moment, for files and connections
 * that are needed before the clients have gone.
 */
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { errorCode } from '../../platform/error-code.ts'
import type { Logger } from '../../platform/log.ts'

export interface DescriptorGuardOptions {
  /** The maximum number of descriptors of this process. */
  limit: number
  /** Resolves when no more connections are accepted. */
  stopListening(): Promise<unknown>
  /** Rejects when the address cannot be listened on at the moment. The guard tries again. */
  listenAgain(): Promise<void>
  log: Logger
}

export interface DescriptorGuard {
  close(): void
}

/** The soft limit of this process. Infinite if the system sets none. */
export function descriptorLimit(): number {
  const soft = Number(process.platform === 'linux' ? softLimitOfLinux() : reportedSoftLimit())
  return soft > 0 ? soft : Number.POSITIVE_INFINITY
}

/** The report of Node.js has the same number, but it collects everything else first: at least 4 ms of CPU. */
function softLimitOfLinux(): string | undefined {
  return /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
}

function reportedSoftLimit(): unknown {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } }
  return report.userLimits?.open_files?.soft
}

/**
 * The limit for an engine that can reject connections itself. It leaves half of the reserved descriptors to
 * connections that arrive all at once, before the next check.
 */
export function maxConnections(limit = descriptorLimit()): number {
  return limit - Math.ceil(keptOf(limit) / 2) - openDescriptors()
}

export function guardDescriptors({
  limit,
  stopListening,
  listenAgain,
  log,
}: DescriptorGuardOptions): DescriptorGuard {
  const kept = keptOf(limit)
  const most = limit - kept
  let reserve = openReserve(Math.min(reserveSize, Math.floor(kept / 4)))
  let isFull = false
  let isOpening = false
  let isTrouble = false
  let isClosed = false
  let timer: NodeJS.Timeout

  const releaseReserve = () => {
    for (const descriptor of reserve) closeSync(descriptor)
    reserve = []
  }
  const becomeFull = () => {
    isFull = true
    // The order matters: the released descriptors must not go to clients that wait to be accepted.
    stopListening().then(releaseReserve, (error) => log.error({ err: error }, 'http.still_listening'))
    log.warn({ max_descriptors: limit, reserved: kept }, 'http.connections_full')
  }
  const acceptAgain = async () => {
    isOpening = true
    try {
      await listenAgain()
      if (isClosed) return void (await stopListening())
      reserve = openReserve(Math.min(reserveSize, Math.floor(kept / 4)))
      isFull = false
      isTrouble = false
      log.info({ open_descriptors: openDescriptors() }, 'http.accepting_again')
    } catch (error) {
      // It is tried again at every check. A port that the system chose (port 0 in the settings) is only free again
      // when the last connection has closed.
      if (!isTrouble) log.error({ err: error }, 'http.not_listening')
      isTrouble = true
    } finally {
      isOpening = false
    }
  }

  /** Returns the milliseconds until the next check. */
  const check = () => {
    if (isFull) {
      if (!isOpening && openDescriptors() < most - kept / 4) void acceptAgain()
      return checkEveryMs
    }
    // The system assigns the lowest free number, so a number this high means that as many are open.
    const free = most - lowestFree()
    if (free <= 0) becomeFull()
    return Math.min(Math.max(free / acceptedPerMs, checkEveryMs), restMs)
  }
  const watch = (afterMs: number) => {
    timer = setTimeout(() => watch(check()), afterMs).unref()
  }
  watch(checkEveryMs)
  return {
    close: () => {
      isClosed = true
      clearTimeout(timer)
      releaseReserve()
    },
  }
}

/** Close to the limit and beyond it. A check takes some ten microseconds. */
const checkEveryMs = 20
/** More than the system accepts, so that the limit is never reached between two checks. */
const acceptedPerMs = 50
/** With many free descriptors. A check every 20 ms was half of what an idle daemon's main thread did. */
const restMs = 500
const reserveSize = 32

function keptOf(limit: number): number {
  return Math.min(resourceLimits.descriptorsKept, Math.floor(limit / 2))
}

function openReserve(size: number): number[] {
  return Array.from({ length: size }, () => openSync('/dev/null', 'r'))
}

/** The lowest free descriptor. Infinite if there is none. */
function lowestFree(): number {
  try {
    const descriptor = openSync('/dev/null', 'r')
    closeSync(descriptor)
    return descriptor
  } catch (error) {
    if (errorCode(error) === 'EMFILE' || errorCode(error) === 'ENFILE') return Number.POSITIVE_INFINITY
    throw error
  }
}

/** The number of open descriptors. Infinite if none is free, because counting them needs one. */
function openDescriptors(): number {
  try {
    return readdirSync(process.platform === 'linux' ? '/proc/self/fd' : '/dev/fd').length
  } catch (error) {
    if (errorCode(error) === 'EMFILE' || errorCode(error) === 'ENFILE') return Number.POSITIVE_INFINITY
    throw error
  }
}
