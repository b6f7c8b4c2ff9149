/**
 * Reads JSON that was validated when it was accepted, value by value: for texts in which JSON.parse mistakes keys. Strings
 * and scalars are parsed by JSON.parse.
 */

/**
 * A key with an escape. JSON.parse of V8 13.6 (Node.js 24) confuses some of them with a key that followed the same keys
 * in an earlier object, from any client, if that key begins with a backslash.
 */
const escapedKey = /\\.[^"\\]*"\s*:/

export function hasEscapedKey(text: string): boolean {
  return escapedKey.test(text)
}

/** `scalar` parses numbers and literals. */
export function readJson(text: string, scalar: (token: string) => unknown = JSON.parse): unknown {
  return new Reader(text, scalar).value()
}

class Reader {
  readonly #text: string
  readonly #scalar: (token: string) => unknown
  #at = 0

  constructor(text: string, scalar: (token: string) => unknown) {
    this.#text = text
    this.#scalar = scalar
  }

  value(): unknown {
    this.#skip()
    const first = this.#text[this.#at]
    if (first === '{') return this.#object()
    if (first === '[') return this.#array()
    if (first === '"') return this.#string()
    return this.#scalar(this.#token())
  }

  #object(): Record<string, unknown> {
    const result: Record<string, unknown> = {}
    this.#at += 1
    while (!this.#ends('}')) {
      const key = this.#string()
      this.#skip()
      this.#at += 1
      // As in JSON.parse: an own property, whatever its name.
      Object.defineProperty(result, key, {
        value: this.value(),
        configurable: true,
        enumerable: true,
        writable: true,
      })
    }
    return result
  }

  #array(): unknown[] {
    const result: unknown[] = []
    this.#at += 1
    while (!this.#ends(']')) result.push(this.value())
    return result
  }

  /** Returns true after the closing bracket; otherwise moves past the comma to the next element. */
  #ends(closing: string): boolean {
    this.#skip()
    if (this.#text[this.#at] === ',') {
      this.#at += 1
      this.#skip()
    }
    if (this.#at < this.#text.length && this.#text[this.#at] !== closing) return false
    this.#at += 1
    return true
  }

  #string(): string {
    const start = this.#at
    for (this.#at += 1; this.#text[this.#at] !== '"'; this.#at += 1)
      if (this.#text[this.#at] === '\\') this.#at += 1
    this.#at += 1
    return JSON.parse(this.#text.slice(start, this.#at))
  }

  #token(): string {
    const start = this.#at
    while (this.#at < this.#text.length && !/[\s,\]}]/.test(this.#text[this.#at]!)) this.#at += 1
    return this.#text.slice(start, this.#at)
  }

  #skip(): void {
    while (this.#text.charCodeAt(this.#at) <= 0x20) this.#at += 1
  }
}
