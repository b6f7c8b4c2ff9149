/**
 * A record whose members are moved, renamed and replaced as text, so that untouched values keep every digit and space.
 * An object is parsed only when a step accesses it. The last of duplicate keys counts, as in JSON.parse; parsing an
 * object removes the others, so that dropped or masked values leave no copy.
 */
import { members, stringValue } from '../../log/record-text.ts'

/** A value: its JSON text, or a parsed object. */
type Value = string | RecordTree

export class RecordTree {
  readonly #members = new Map<string, { keyText: string; value: Value }>()

  constructor(text: string) {
    for (const { key, value } of members(Buffer.from(text))) {
      const keyText = key.toString('utf8')
      const name = stringValue(keyText)
      this.#members.set(name, {
        keyText: this.#members.get(name)?.keyText ?? keyText,
        value: value.toString('utf8'),
      })
    }
  }

  /** The value's text; undefined when it does not exist. */
  get(path: readonly string[]): string | undefined {
    const [owner, key] = this.#ownerOf(path)
    const value = owner === undefined ? undefined : owner.#members.get(key)?.value
    return typeof value === 'object' ? value.text : value
  }

  /** Sets a top-level member: in place if the key exists, otherwise at the end. */
  set(key: string, text: string): void {
    const keyText = this.#members.get(key)?.keyText ?? JSON.stringify(key)
    this.#members.set(key, { keyText, value: text })
  }

  /** Replaces the value if it exists. */
  replace(path: readonly string[], text: string): void {
    const [owner, key] = this.#ownerOf(path)
    const member = owner === undefined ? undefined : owner.#members.get(key)
    if (member !== undefined) member.value = text
  }

  delete(path: readonly string[]): void {
    const [owner, key] = this.#ownerOf(path)
    if (owner !== undefined) owner.#members.delete(key)
  }

  /** Renames a top-level member in place. A member that already has the new key is removed. */
  rename(from: string, to: string): void {
    if (from === to || !this.#members.has(from)) return
    const before = [...this.#members]
    this.#members.clear()
    for (const [name, member] of before) {
      if (name === from) this.#members.set(to, { keyText: JSON.stringify(to), value: member.value })
      else if (name !== to) this.#members.set(name, member)
    }
  }

  /** Removes everything except these paths. */
  keep(paths: readonly (readonly string[])[]): void {
    const byKey = new Map<string, (readonly string[])[]>()
    for (const [key = '', ...rest] of paths) byKey.set(key, [...(byKey.get(key) ?? []), rest])
    for (const key of [...this.#members.keys()]) {
      const below = byKey.get(key)
      if (below === undefined) this.#members.delete(key)
      else if (below.every((path) => path.length > 0)) {
        const inner = this.#opened(key)
        if (inner === undefined) this.#members.delete(key)
        else inner.keep(below)
      }
    }
  }

  get text(): string {
    const parts: string[] = []
    for (const { keyText, value } of this.#members.values())
      parts.push(`${keyText}:${typeof value === 'string' ? value : value.text}`)
    return `{${parts.join(',')}}`
  }

  #ownerOf(path: readonly string[]): [RecordTree | undefined, string] {
    let owner: RecordTree | undefined = this
    for (const key of path.slice(0, -1)) owner = owner === undefined ? undefined : owner.#opened(key)
    return [owner, path.at(-1)!]
  }

  /** The object at a key; undefined when there is none. */
  #opened(key: string): RecordTree | undefined {
    const member = this.#members.get(key)
    if (member === undefined) return undefined
    if (typeof member.value === 'object') return member.value
    if (!member.value.startsWith('{')) return undefined
    const tree = new RecordTree(member.value)
    member.value = tree
    return tree
  }
}
