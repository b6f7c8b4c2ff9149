/**
 * Chooses a column name for every key. It is the key itself if the database allows that name. Otherwise control and formatting
 * characters become `_`, the name is cut to the maximum length, and gets a number if it is taken. The result is still quoted
 * before it is part of a statement.
 */
import { columnKey, identifierFault, type SqlDialect } from '../identifiers.ts'

/** The system columns of every PostgreSQL table. */
const systemColumns = new Set(['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid'])

/** Format characters reverse the text around them (U+202E) or are invisible. */
const unfit = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu
/** MySQL's names use three bytes per character: no emoji. */
const beyondBasicPlane = /[\u{10000}-\u{10ffff}]/gu

export class ColumnNames {
  readonly #dialect: SqlDialect
  readonly #taken = new Set<string>()

  constructor(dialect: SqlDialect) {
    this.#dialect = dialect
    if (dialect === 'postgresql') for (const name of systemColumns) this.take(name)
  }

  take(name: string): void {
    this.#taken.add(columnKey(this.#dialect, name))
  }

  isFree(name: string): boolean {
    return !this.#taken.has(columnKey(this.#dialect, name))
  }

  /** Reserves and returns a name that is free. */
  nameFor(key: string): string {
    const clean = this.#clean(key)
    let name = clean
    for (let number = 2; !this.isFree(name); number++) name = `${this.#cut(clean, `_${number}`)}_${number}`
    this.take(name)
    return name
  }

  #clean(key: string): string {
    let name = key.replace(unfit, '_')
    if (this.#dialect === 'mysql') name = name.replace(beyondBasicPlane, '_').trimEnd()
    name = this.#cut(name, '')
    return identifierFault(this.#dialect, name) === null ? name : 'column'
  }

  /** Cuts at whole characters, so that `suffix` still fits. */
  #cut(name: string, suffix: string): string {
    const characters = [...name].slice(0, 64)
    const isTooLong = () =>
      identifierFault(this.#dialect, `x${characters.slice(1).join('')}${suffix}`) !== null
    while (characters.length > 1 && isTooLong()) characters.pop()
    const cut = characters.join('')
    return this.#dialect === 'mysql' ? cut.trimEnd() : cut
  }
}
