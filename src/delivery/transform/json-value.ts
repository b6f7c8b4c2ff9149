/**
 * A record as an expression sees it. Numbers are doubles; an integer that is not exact as a double is a bigint (CEL's
 * int) if it fits into 64 bits, so that ids compare digit by digit. Objects have no prototype, so that no key has a
 * special meaning.
 */

/** An integer with at least 16 digits; all others are exact as doubles. */
const mayBeInexact = /[0-9]{16}/

/**
 * A key with an escape. JSON.parse of V8 13.6 (Node.js 24) confuses some of them with a key that followed the same keys
 * in an earlier object, from any client, if that key begins with a backslash.
 */
const mayBeConfused = /\\.[^"\\]*"\s*:/

/** `text` is JSON that was validated when it was accepted. */
export function recordValue(text: string): unknown {
  return mayBeInexact.test(text) || mayBeConfused.test(text) ? new Reader(text).value() : JSON.parse(text)
}

const maxInt = 2n ** 63n - 1n
const minInt = -(2n ** 63n)

/** Parses the rare text with long numbers or with escapes in keys. Strings are parsed by JSON.parse. */
class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  value(): unknown {
    this.#skip()
    const first = this.#text[this.#at]
    if (first === '{') return this.#object()
    if (first === '[') return this.#array()
    if (first === '"') return this.#string()
    return scalar(this.#token())
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

function scalar(token: string): unknown {
  const value: unknown = JSON.parse(token)
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?[0-9]{1,19}$/.test(token)) return value
  const exact = BigInt(token)
  return exact >= minInt && exact <= maxInt ? exact : value
}
