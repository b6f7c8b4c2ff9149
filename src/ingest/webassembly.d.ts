/** The part of Node's WebAssembly that is used here: @types/node leaves it to the DOM's types. */
declare namespace WebAssembly {
  class Memory {
    constructor(pages: { initial: number; maximum: number })
    readonly buffer: ArrayBuffer
    /** Throws a RangeError beyond the maximum. */
    grow(pages: number): number
  }
  class Module {
    constructor(bytes: Uint8Array)
  }
  class Instance {
    constructor(module: Module, imports: Record<string, Record<string, unknown>>)
    readonly exports: unknown
  }
  interface Global {
    readonly value: number
  }
  function validate(bytes: Uint8Array): boolean
}
