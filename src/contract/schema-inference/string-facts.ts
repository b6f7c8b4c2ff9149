/** Facts about the string values at one path: a few distinct values, or one format that all of them have. */
import { type InferredFormat, inferredFormats } from './formats.ts'

/** More distinct values are not an enum. */
export const enumValues = 20
/** Fewer values say nothing about the values that will follow. */
const enumOccurrences = 100
/** A value that was seen less often is the beginning of a long tail. */
const occurrencesOfValue = 3
const enumCharacters = 40
/** Texts of people have spaces, and `In transit` is a state. */
const enumWords = 3
const formatOccurrences = 10

export class StringFacts {
  #count = 0
  /** Null: too many, or one of them is text. */
  #values: Map<string, number> | null = new Map()
  #formats: readonly InferredFormat[] = inferredFormats

  add(value: string): void {
    this.#count += 1
    if (this.#formats.length > 0) this.#formats = this.#formats.filter(({ isMatch }) => isMatch(value))
    this.#addValue(value, 1)
  }

  merge(other: StringFacts): void {
    this.#count += other.#count
    this.#formats = this.#formats.filter((format) => other.#formats.includes(format))
    if (other.#values === null) this.#values = null
    else for (const [value, times] of other.#values) this.#addValue(value, times)
  }

  /** The format that every value has. Null: none, or there were too few values. */
  get format(): string | null {
    return this.#count < formatOccurrences ? null : (this.#formats[0]?.name ?? null)
  }

  /** All values, sorted. Null: they are no enum. */
  get enum(): string[] | null {
    if (this.#values === null || this.#count < enumOccurrences) return null
    const isOften = [...this.#values.values()].every((times) => times >= occurrencesOfValue)
    return isOften ? [...this.#values.keys()].sort() : null
  }

  #addValue(value: string, times: number): void {
    if (this.#values === null) return
    const known = this.#values.get(value)
    if (known !== undefined) this.#values.set(value, known + times)
    else if (this.#values.size < enumValues && isWord(value)) this.#values.set(value, times)
    else this.#values = null
  }
}

function isWord(value: string): boolean {
  return value.length <= enumCharacters && value.split(' ').length <= enumWords && !/[\n\r\t]/.test(value)
}

/** Keys whose values are of people, places, texts or ids: a value that was not seen yet is not a mistake. */
export function isOpenText(key: string): boolean {
  const words = key
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
  return words.some((word) => openWords.has(word))
}

const openWords = new Set(
  [
    'name names firstname lastname surname username nickname user author owner customer company brand vendor',
    'title subject text body comment comments description message note notes reason remark label search query',
    'address street city town region place location email mail phone url uri link path host hostname ip agent',
    'id ids uuid guid key keys token secret password hash sku code ref reference session tag tags keyword keywords',
  ]
    .join(' ')
    .split(' '),
)
