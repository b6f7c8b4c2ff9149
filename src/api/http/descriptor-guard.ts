/**
 * Connections must not take the last file descriptors: without one the daemon can open no file and no connection to a
 * destination. Whoever connects takes one before it has said a word, so this cannot be left to the checks of requests.
 *
 *   accepting ──too few left──▶ full ──connections have gone──▶ accepting
 *
 * uWebSockets' binding on Node 20 accepts whatever comes and says nothing of it. What can be done is to stop listening:
 * those who come then are rejected by the system, those who are connected go on, and silent ones are closed by the engine
 * within 10 seconds. A few descriptors are held as a reserve and given up with it, for what needs one before the crowd has gone.
 */
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { errorCode } from '../../platform/error-code.ts'
import type { Logger } from '../../platform/log.ts'

export interface DescriptorGuardOptions {
  /** The most that this process may have. */
  limit: number
  /** Resolves when no connection is accepted any more. */
  stopListening(): Promise<unknown>
  /** Rejects when the address cannot be listened on now; it is tried again. */
  listenAgain(): Promise<void>
  log: Logger
}

export interface DescriptorGuard {
  close(): void
}

/** The soft limit of this process; infinite where the system sets none. */
export function descriptorLimit(): number {
  const soft = Number(process.platform === 'linux' ? softLimitOfLinux() : reportedSoftLimit())
  return soft > 0 ? soft : Number.POSITIVE_INFINITY
}

/** The report of Node.js has the same number, but collects everything else first: at least 4 ms of CPU. */
function softLimitOfLinux(): string | undefined {
  return /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
}

function reportedSoftLimit(): unknown {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } }
  return report.userLimits?.open_files?.soft
}

/** Where an engine can say no by itself: what comes all at once, before a check, takes half of what is kept at most. */
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

  const releaseReserve = () => {
    for (const descriptor of reserve) closeSync(descriptor)
    reserve = []
  }
  const becomeFull = () => {
    isFull = true
    // In this order: what is given up must not go to those who wait to be accepted.
    stopListening().then(releaseReserve, (error) => log.error({ err: error }, 'http.still_listening'))
    log.warn({ max_descriptors: limit, kept }, 'http.connections_full')
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
      // Tried again at every check: a port that was any free one is only free when the last connection has gone.
      if (!isTrouble) log.error({ err: error }, 'http.not_listening')
      isTrouble = true
    } finally {
      isOpening = false
    }
  }

  const check = () => {
    if (!isFull) {
      // The system gives the lowest number that is free: one that high means that as many are open.
      if (lowestFree() >= most) becomeFull()
    } else if (!isOpening && openDescriptors() < most - kept / 4) void acceptAgain()
  }
  const timer = setInterval(check, checkEveryMs)
  timer.unref()
  return {
    close: () => {
      isClosed = true
      clearInterval(timer)
      releaseReserve()
    },
  }
}

/** A crowd can connect within milliseconds; a check takes some ten microseconds. */
const checkEveryMs = 20
const reserveSize = 32

function keptOf(limit: number): number {
  return Math.min(resourceLimits.descriptorsKept, Math.floor(limit / 2))
}

function openReserve(size: number): number[] {
  return Array.from({ length: size }, () => openSync('/dev/null', 'r'))
}

/** Infinite when there is none. */
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

/** Infinite when they cannot be counted for want of one. */
function openDescriptors(): number {
  try {
    return readdirSync(process.platform === 'linux' ? '/proc/self/fd' : '/dev/fd').length
  } catch (error) {
    if (errorCode(error) === 'EMFILE' || errorCode(error) === 'ENFILE') return Number.POSITIVE_INFINITY
    throw error
  }
}
