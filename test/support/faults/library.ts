/**
 * The fault library from TypeScript: builds it, sets up a child's environment, writes plans, reads counts.
 *
 *   const disk = faultyDisk(root, work)          every call below `root` is numbered; `work` lies outside of it
 *   disk.plan({ at: 12, error: 'EIO' })          also while the child runs: numbering starts again from 1
 *   spawn(process.execPath, args, { env: { ...cleanEnv(), ...disk.env } })
 *   disk.counts()                                also after the child was killed
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { prepareServers } from '../programs.ts'

/** As `enum kind` in library/faults.h: the place is the code. */
export const kinds = [
  'create',
  'write',
  'sync',
  'datasync',
  'truncate',
  'rename',
  'unlink',
  'mkdir',
  'rmdir',
  'link',
  'open',
  'dup',
  'mark',
  'read',
] as const
export type Kind = (typeof kinds)[number]
/** They change nothing. All but the reads are recorded. */
export const unnumbered: readonly Kind[] = ['open', 'dup', 'mark', 'read']

export interface Plan {
  /** The call that is hit, from 1. */
  at: number
  error?: 'EIO' | 'ENOSPC'
  /** From this call on the disk is full: nothing grows, what does not grow works. */
  full?: 'yes'
  /** `half`: after half of a write; before any other call. */
  kill?: 'before' | 'half' | 'after'
  /** `always`: the call and all after it. */
  until?: 'once' | 'always'
  /** Number only these; reads are numbered only where they are named here. */
  kinds?: readonly Kind[]
  /** Number only calls with this in their path. */
  match?: string
}

export interface Counts {
  /** Calls that the plan numbers, since it was written. */
  matched: number
  /** Calls that were failed or killed at. */
  hits: number
  byKind: Record<Kind, number>
  /** Kind and path. */
  lastHit: string
}

/** A range of a file that cannot be read (EIO), as of a disk with a bad sector. It moves with the file, not into copies. */
export interface BadSector {
  /** Absolute. */
  file: string
  offset: number
  bytes: number
}

export interface FaultyDisk {
  env: Record<string, string>
  /** The file of the plan, for a program that decides itself when the plan begins: it writes `planText` there. */
  controlFile: string
  traceFile: string
  plan(plan: Plan | null): void
  setFull(isFull: boolean): void
  /** All that are bad from now on. */
  setBadSectors(sectors: readonly BadSector[]): void
  counts(): Counts
}

let built: string | null = null

function libraryFile(): string {
  prepareServers(['gcc'])
  built ??= path.resolve(
    execFileSync('sh', [fileURLToPath(new URL('./build.sh', import.meta.url))], { encoding: 'utf8' }).trim(),
  )
  return built
}

/** `root` must exist. `work` lies outside of it and is made; it holds the plan, the counts and, with `trace`, the record. `diskBytes`: what the disk shows as its size and free space. */
export function faultyDisk(
  root: string,
  work: string,
  options: { trace?: boolean; diskBytes?: number } = {},
): FaultyDisk {
  mkdirSync(work, { recursive: true })
  const control = path.join(work, 'plan')
  const full = path.join(work, 'full')
  const countsFile = path.join(work, 'counts')
  const traceFile = path.join(work, 'trace')
  const sectorsFile = path.join(work, 'bad-sectors')
  for (const old of [control, full, countsFile, traceFile, sectorsFile]) rmSync(old, { force: true })
  const env: Record<string, string> = {
    ...soundDisk(root, options.diskBytes),
    FAULTS_CONTROL: control,
    FAULTS_FULL: full,
    FAULTS_COUNTS: countsFile,
    FAULTS_BAD_SECTORS: sectorsFile,
  }
  if (options.trace === true) Object.assign(env, { FAULTS_TRACE: traceFile, FAULTS_MARKS: '1' })
  return {
    env,
    controlFile: control,
    traceFile,
    plan: (plan) => replaceFile(control, planText(plan)),
    setFull: (isFull) => (isFull ? writeFileSync(full, '') : rmSync(full, { force: true })),
    setBadSectors: (sectors) =>
      replaceFile(
        sectorsFile,
        sectors.map(({ file, offset, bytes }) => `${offset} ${bytes} ${file}\n`).join(''),
      ),
    counts: () => readCounts(countsFile),
  }
}

/** The environment of a program on a disk on which nothing fails, which shows this size. */
export function soundDisk(root: string, diskBytes?: number): Record<string, string> {
  return {
    LD_PRELOAD: libraryFile(),
    FAULTS_ROOT: realpathSync(root),
    // Calls made through io_uring do not go through the C library.
    UV_USE_IO_URING: '0',
    ...(diskBytes === undefined ? {} : { FAULTS_DISK_BYTES: String(diskBytes) }),
  }
}

/** As library/plan.c reads it. */
export function planText(plan: Plan | null): string {
  const lines: string[] = []
  for (const [word, value] of Object.entries(plan ?? {})) {
    if (value === undefined) continue
    lines.push(`${word} ${word === 'kinds' ? (value as Kind[]).map((kind) => kinds.indexOf(kind)) : value}\n`)
  }
  return lines.join('')
}

/** In one step: the library may read it at any moment. */
function replaceFile(file: string, text: string): void {
  writeFileSync(`${file}.new`, text)
  renameSync(`${file}.new`, file)
}

/** `struct counts` of library/plan.c. */
function readCounts(file: string): Counts {
  const byKind = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<Kind, number>
  if (!existsSync(file)) return { matched: 0, hits: 0, byKind, lastHit: '' }
  const bytes = readFileSync(file)
  const at = (index: number) => Number(bytes.readBigUInt64LE(index * 8))
  for (const [index, kind] of kinds.entries()) byKind[kind] = at(2 + index)
  const hit = bytes.toString('utf8', (2 + kinds.length) * 8).replace(/\0.*$/s, '')
  const [code, ...rest] = hit.split(' ')
  return {
    ...{ matched: at(0), hits: at(1), byKind },
    lastHit: hit === '' ? '' : `${kinds[Number(code)]} ${rest.join(' ')}`,
  }
}
