/** CPU time and memory of a process, as the kernel counts them (Linux). */
import { readFileSync } from 'node:fs'

const ticksPerSecond = 100

/** User and system time so far, in seconds, all threads. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
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
