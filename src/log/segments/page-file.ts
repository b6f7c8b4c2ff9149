/**
 * Reads the pages of a SQLite file directly, without SQLite: the file's pages, replaced by newer committed images from
 * its WAL. A page that cannot be read is null, so that the rest of the file stays readable.
 */
import { pageBytesOf } from './page-size.ts'
import {
  closeReadable,
  openReadable,
  openReadableOrEmpty,
  type ReadableFile,
  readAt,
  readInto,
} from './readable-file.ts'
import { isGone } from './sqlite-errors.ts'
import { noOverlay, readWalOverlay, type WalOverlay } from './wal-overlay.ts'

/** Read-ahead for a sequential scan, and for chains, whose pages mostly follow each other. */
const scanBytes = 256 * 1024
const chainBytes = 64 * 1024
/** The page limit when only the WAL exists: more than the largest segment has. */
const maxPages = 2 ** 20

/**
 * A missing file or WAL counts as empty: without the file, the pages in its WAL are read. Throws when the file exists
 * and cannot be opened.
 */
export function openPageFile(file: string): PageFile {
  const pages = openReadableOrEmpty(file)
  const wal = openWal(`${file}-wal`)
  const pageBytes = pageBytesOf(pages, wal)
  return new PageFile(pages, pageBytes, wal, wal === null ? noOverlay : readWalOverlay(wal, pageBytes))
}

export class PageFile {
  readonly pageBytes: number
  /** The last page can be truncated. */
  readonly pageCount: number
  readonly overlay: WalOverlay
  /** The pages that could not be read so far. */
  readonly unreadable = new Set<number>()
  readonly #file: ReadableFile
  readonly #wal: ReadableFile | null
  readonly #scan: Window
  readonly #chain: Window

  constructor(file: ReadableFile, pageBytes: number, wal: ReadableFile | null, overlay: WalOverlay) {
    this.pageBytes = pageBytes
    this.#file = file
    this.#wal = wal
    this.overlay = overlay
    this.#scan = new Window(file, scanBytes, pageBytes)
    this.#chain = new Window(file, chainBytes, pageBytes)
    // A sound WAL names at most the file's pages plus one per own frame; a damaged one can name any.
    const added = file.fd === null ? maxPages : overlay.pages.size
    const most = Math.ceil(file.bytes / pageBytes) + added
    const inWal = [...overlay.pages.keys()].filter((pageNo) => pageNo <= most)
    this.pageCount = inWal.reduce((last, pageNo) => Math.max(last, pageNo), Math.ceil(file.bytes / pageBytes))
  }

  /** Pages are numbered from 1. Null when there is no such page or it cannot be read. Valid until the next call. */
  read(pageNo: number): Buffer | null {
    return this.#read(pageNo, this.#scan)
  }

  /** The same for the pages of a chain. Valid until the next call of this method. */
  readInChain(pageNo: number): Buffer | null {
    return this.#read(pageNo, this.#chain)
  }

  close(): void {
    closeReadable(this.#file)
    if (this.#wal !== null) closeReadable(this.#wal)
  }

  #read(pageNo: number, window: Window): Buffer | null {
    const inWal = this.overlay.pages.get(pageNo)
    if (inWal !== undefined && this.#wal !== null) return readAt(this.#wal, inWal, this.pageBytes)
    if (pageNo < 1 || pageNo > this.pageCount) return null
    const page = window.read(pageNo)
    if (page === null) this.unreadable.add(pageNo)
    return page
  }
}

/** A run of consecutive pages in memory. */
class Window {
  readonly #file: ReadableFile
  readonly #bytes: Buffer
  readonly #pageBytes: number
  #first = 0
  #end = 0

  constructor(file: ReadableFile, bytes: number, pageBytes: number) {
    this.#file = file
    this.#bytes = Buffer.allocUnsafe(bytes)
    this.#pageBytes = pageBytes
  }

  read(pageNo: number): Buffer | null {
    if (pageNo < this.#first || pageNo >= this.#end) this.#move(pageNo)
    if (pageNo >= this.#end) return this.#readAlone(pageNo)
    const at = (pageNo - this.#first) * this.#pageBytes
    return this.#bytes.subarray(at, at + this.#pageBytes)
  }

  /** Reads whole pages only. When the range has a bad sector, its pages are read one by one instead. */
  #move(pageNo: number): void {
    const bytes = readInto(this.#file, (pageNo - 1) * this.#pageBytes, this.#bytes)
    this.#first = pageNo
    this.#end = pageNo + Math.floor(bytes / this.#pageBytes)
  }

  /** A page that is truncated by the end of the file is padded with zeros. */
  #readAlone(pageNo: number): Buffer | null {
    const page = Buffer.alloc(this.#pageBytes)
    return readInto(this.#file, (pageNo - 1) * this.#pageBytes, page) > 0 ? page : null
  }
}

function openWal(file: string): ReadableFile | null {
  try {
    return openReadable(file)
  } catch (error) {
    if (!isGone(error)) throw error
    return null
  }
}
