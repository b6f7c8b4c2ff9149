/**
 * Replays a record of calls up to some moment, cuts the power, and gives a directory that a real disk could hold then:
 * what was synced is there; of the rest as much as the data mode and the policy for names leave, by the seed.
 *
 * Not modelled: a disk that loses what it has synced (tests that need one leave the syncs out of the record), and the
 * content of memory-mapped files: SQLite's -shm files are left out of every image.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type DataMode, DiskFile, dataModes } from './disk-file.ts'
import { DiskDirectory, type DiskNode, DurableNames, type NamePolicy, namePolicies } from './disk-names.ts'
import { seeded } from './random.ts'
import type { Call } from './trace.ts'

export interface Cut {
  /** The power is cut before this call of the record. */
  before: number
  data: DataMode
  names: NamePolicy
  seed: number
}

/** Files by their path below the root; directories with null. */
export type Image = Map<string, Buffer | null>

/** A cut by its seed alone, at some moment from call `from` on. */
export function randomCut(seed: number, calls: number, from = 0): Cut {
  const random = seeded(seed)
  const before = from + random.below(calls - from + 1)
  return { before, data: random.pick(dataModes), names: random.pick(namePolicies), seed }
}

/** The images of all cuts, in the order of their moments: the record is replayed once. */
export function* imagesAfter(
  calls: readonly Call[],
  root: string,
  cuts: readonly Cut[],
  base: Image = new Map(),
): Generator<{ cut: Cut; image: Image }> {
  const disk = new Disk(root, base)
  let at = 0
  for (const cut of cuts.toSorted((a, b) => a.before - b.before)) {
    for (; at < cut.before && at < calls.length; at += 1) disk.apply(calls[at]!, at)
    yield { cut, image: disk.cut(cut, at) }
  }
}

export function readImage(directory: string): Image {
  const image: Image = new Map()
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    image.set(path.relative(directory, file), entry.isDirectory() ? null : readFileSync(file))
  }
  return image
}

export function writeImage(image: Image, directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  for (const [name, content] of image) {
    const file = path.join(directory, name)
    if (content === null) mkdirSync(file, { recursive: true, mode: 0o700 })
    else {
      mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
      writeFileSync(file, content, { mode: 0o600 })
    }
  }
}

class Disk {
  readonly #prefix: string
  readonly #root = new DiskDirectory()
  readonly #journal = new DurableNames(true)
  readonly #posix = new DurableNames(false)
  readonly #files = new Set<DiskFile>()
  readonly #open = new Map<string, DiskNode>()

  constructor(root: string, base: Image) {
    this.#prefix = root
    for (const [name, content] of [...base].sort(([a], [b]) => (a < b ? -1 : 1))) {
      this.#put(path.join(root, name), content === null ? new DiskDirectory() : new DiskFile(content))
    }
    this.#journal.synced(this.#root)
    for (const node of this.#nodes()) if (node instanceof DiskDirectory) this.#posix.synced(node)
  }

  apply(call: Call, at: number): void {
    const key = (fd: number) => `${call.pid}:${fd}`
    const node = call.fd >= 0 ? this.#open.get(key(call.fd)) : this.#find(call.path)
    if (call.kind === 'sync' || call.kind === 'datasync') this.#sync(node, call)
    else if (call.result < 0) return
    else if (call.kind === 'create' || call.kind === 'open') {
      this.#open.set(key(call.fd), this.#opened(call, at))
    } else if (call.kind === 'write' && node instanceof DiskFile) {
      // A write too large for the record is cut short there.
      const data = call.data.length === call.written ? call.data : padded(call.data, call.written)
      node.write(at, call.offset, data)
    } else if (call.kind === 'truncate' && node instanceof DiskFile) node.truncate(at, call.offset)
    else if (call.kind === 'dup' && node !== undefined) this.#open.set(key(call.offset), node)
    else if (call.kind === 'mkdir' && node === undefined) this.#put(call.path, new DiskDirectory())
    else if (call.kind === 'unlink' || call.kind === 'rmdir') this.#put(call.path, null)
    else if (call.kind === 'link' && node !== undefined) this.#put(call.second, node)
    else if (call.kind === 'rename' && node !== undefined) this.#rename(call.path, call.second, node)
  }

  cut({ data, names, seed }: Cut, at: number): Image {
    const random = seeded(seed)
    const policy = names === 'journal' ? this.#journal : this.#posix
    const entriesOf = policy.afterCut(names, random)
    const oldest = Math.min(at, ...[...this.#files].map(({ unsyncedSince }) => unsyncedSince))
    const prefixEnd = oldest + random.below(at - oldest + 1)
    const image: Image = new Map()
    const walk = (directory: DiskDirectory, prefix: string) => {
      for (const [name, node] of entriesOf(directory)) {
        if (name.endsWith('-shm')) continue
        const whole = path.join(prefix, name)
        if (node instanceof DiskDirectory) {
          image.set(whole, null)
          walk(node, whole)
        } else image.set(whole, node.afterCut(data, random, prefixEnd))
      }
    }
    walk(this.#root, '')
    return image
  }

  #sync(node: DiskNode | undefined, call: Call): void {
    if (node === undefined) return
    if (call.result < 0) {
      if (node instanceof DiskFile) node.syncFailed()
      return
    }
    if (node instanceof DiskFile) node.sync()
    // fdatasync leaves names to the next sync.
    if (call.kind === 'datasync') return
    this.#journal.synced(node)
    this.#posix.synced(node)
  }

  #opened(call: Call, at: number): DiskNode {
    let node = this.#find(call.path)
    if (node === undefined) {
      node = new DiskFile()
      this.#put(call.path, node)
    } else if (call.truncates && node instanceof DiskFile) node.truncate(at, 0)
    return node
  }

  #rename(from: string, to: string, node: DiskNode): void {
    const [left, entered] = [this.#place(from), this.#place(to)]
    this.#edit([
      { ...left, node: null },
      { ...entered, node },
    ])
  }

  #put(file: string, node: DiskNode | null): void {
    this.#edit([{ ...this.#place(file), node }])
  }

  #edit(edits: { directory: DiskDirectory; name: string; node: DiskNode | null }[]): void {
    for (const { directory, name, node } of edits) {
      if (node === null) directory.entries.delete(name)
      else directory.entries.set(name, node)
      if (node instanceof DiskFile) this.#files.add(node)
    }
    this.#journal.changed(edits)
    this.#posix.changed(edits)
  }

  #place(file: string): { directory: DiskDirectory; name: string } {
    const directory = this.#find(path.dirname(file))
    if (!(directory instanceof DiskDirectory)) throw new Error(`the record names ${file} in no directory`)
    return { directory, name: path.basename(file) }
  }

  #find(file: string): DiskNode | undefined {
    let node: DiskNode | undefined = this.#root
    for (const name of path.relative(this.#prefix, file).split('/')) {
      if (name === '') continue
      node = node instanceof DiskDirectory ? node.entries.get(name) : undefined
    }
    return node
  }

  *#nodes(directory = this.#root): Generator<DiskNode> {
    yield directory
    for (const node of directory.entries.values()) {
      if (node instanceof DiskDirectory) yield* this.#nodes(node)
      else yield node
    }
  }
}

function padded(data: Buffer, length: number): Buffer {
  const whole = Buffer.alloc(length)
  data.copy(whole)
  return whole
}
