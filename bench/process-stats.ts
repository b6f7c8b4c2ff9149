/** CPU time and memory of a process, as the kernel counts them (Linux). */
import { readdirSync, readFileSync } from 'node:fs'

const ticksPerSecond = 100

/** User and system time so far, in seconds, all threads. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

/** The CPU of the children of this process that have ended, in seconds. */
export function cpuSecondsOfEndedChildren(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[13]) + Number(fields[14])) / ticksPerSecond
}

/** The CPU of these processes and all below them. */
export function cpuSecondsOfTrees(pids: readonly number[]): number {
  const children = childrenByParent()
  const sum = (pid: number): number => {
    const below = (children.get(pid) ?? []).reduce((total, child) => total + sum(child), 0)
    try {
      return below + cpuSeconds(pid)
    } catch {
      // It has ended since.
      return below
    }
  }
  return pids.reduce((total, pid) => total + sum(pid), 0)
}

/** The processes that this one has started and that run. */
export function ownChildren(): number[] {
  return childrenByParent().get(process.pid) ?? []
}

function childrenByParent(): Map<number, number[]> {
  const children = new Map<number, number[]>()
  for (const pid of readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)) {
    try {
      // "pid (name) state parent …"
      const parent = Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1])
      children.set(parent, [...(children.get(parent) ?? []), pid])
    } catch {
      // It has ended since.
    }
  }
  return children
}

/** Bytes that the process has made the kernel write to storage so far. The journal of the file system is not counted. */
export function writtenBytes(pid: number): number {
  return Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0)
}

/** Resident size, in MiB. */
export function rssMiB(pid: number): number {
  return statusKiB(pid, 'VmRSS') / 1024
}

/** Largest resident size so far, in MiB. */
export function peakRssMiB(pid: number): number {
  return statusKiB(pid, 'VmHWM') / 1024
}

function statusKiB(pid: number, name: string): number {
  return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
}
