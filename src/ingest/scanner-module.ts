/** Opens the compiled src/ingest/scanner for one thread, with that thread's memory limit. */
import { readFileSync } from 'node:fs'
import { errorCode } from '../platform/error-code.ts'

/** The exports of src/ingest/scanner/scan.ts. */
interface Exports {
  limit(recordsPerBody: number, keysPerRecord: number, depth: number, isNdjson: boolean): void
  watch(enrichment: number, required: number): void
  scan(skipped: number, length: number, insertion: number, isNdjson: boolean): number
  outputStart(length: number): number
  confirms(root: number, skipped: number, length: number): number
  resultAt: WebAssembly.Global
  openContainers: WebAssembly.Global
  keyTableAt: WebAssembly.Global
  watchedKeys: WebAssembly.Global
  keyBytesAt: WebAssembly.Global
  insertionAt: WebAssembly.Global
  schemaAt: WebAssembly.Global
  inputAt: WebAssembly.Global
}

/** Addresses in the memory, and the capacities of the areas with a fixed size. */
type Layout = { [name in keyof Exports as Exports[name] extends WebAssembly.Global ? name : never]: number }

export type ScannerModule = Pick<Exports, 'limit' | 'watch' | 'scan' | 'outputStart' | 'confirms'> & {
  values: ValueChecks
  layout: Layout
  memory: WebAssembly.Memory
}

/** Called by `confirms` for values that the scanner cannot check. */
export interface ValueChecks {
  /** Whether the value between two addresses matches. */
  isMatching(check: number, start: number, end: number): boolean
}

const pageBytes = 64 * 1024

/**
 * Null where it cannot run: on a processor without SSE4.1, as in some virtual machines, and where address space is
 * limited (`ulimit -v`), because V8 reserves ten gigabytes for a memory of any size.
 */
export function openScannerModule(maxMemoryBytes: number): ScannerModule | null {
  const code = readCode()
  if (!WebAssembly.validate(code)) return null
  const memory = openMemory(Math.floor(maxMemoryBytes / pageBytes))
  if (memory === null) return null
  const values: ValueChecks = { isMatching: () => false }
  const isMatching: ValueChecks['isMatching'] = (check, start, end) => values.isMatching(check, start, end)
  const imports = { env: { memory }, values: { isMatching } }
  const instance = new WebAssembly.Instance(new WebAssembly.Module(code), imports)
  const { limit, watch, scan, outputStart, confirms, ...globals } = instance.exports as Exports
  return { limit, watch, scan, outputStart, confirms, values, memory, layout: layoutOf(globals) }
}

/** Grows the memory to this size. Returns false when that is not possible. Memory never shrinks. */
export function growTo({ memory }: ScannerModule, bytes: number): boolean {
  const missing = Math.ceil((bytes - memory.buffer.byteLength) / pageBytes)
  return missing <= 0 || unlessNoRoom(() => memory.grow(missing)) !== null
}

function openMemory(maximum: number): WebAssembly.Memory | null {
  return unlessNoRoom(() => new WebAssembly.Memory({ initial: 3, maximum }))
}

function unlessNoRoom<T>(allocate: () => T): T | null {
  try {
    return allocate()
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

function readCode(): Buffer {
  const isSource = import.meta.url.endsWith('.ts')
  const file = new URL(isSource ? '../../dist/ingest/scanner.wasm' : './scanner.wasm', import.meta.url)
  try {
    return readFileSync(file)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    throw new Error(`${file.pathname} is missing: npm run build creates it.`)
  }
}

function layoutOf(globals: object): Layout {
  const numbers: Record<string, number> = {}
  for (const [name, value] of Object.entries(globals)) numbers[name] = value.value
  return numbers as Layout
}
