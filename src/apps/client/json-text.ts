/**
 * Handles JSON as text. Records must be shown as they were sent (1.10, 12345678901234567890, key order). Responses
 * that contain records are therefore cut and indented without parsing numbers.
 *
 * All functions expect valid JSON, such as a response of the daemon. They throw for other text.
 */

/** The text of the value of a top-level key. Null: the key does not exist. */
export function valueText(json: string, key: string): string | null {
  let at = skipSpace(json, 0)
  expect(json, at, '{')
  at = skipSpace(json, at + 1)
  while (json[at] !== '}') {
    const keyEnd = endOfValue(json, at)
    const name: unknown = JSON.parse(json.slice(at, keyEnd))
    at = skipSpace(json, keyEnd)
    expect(json, at, ':')
    at = skipSpace(json, at + 1)
    const end = endOfValue(json, at)
    if (name === key) return json.slice(at, end)
    at = skipSpace(json, end)
    if (json[at] === ',') at = skipSpace(json, at + 1)
    else expect(json, at, '}')
  }
  return null
}

/** The texts of the elements of an array. */
export function elementTexts(json: string): string[] {
  const texts: string[] = []
  let at = skipSpace(json, 0)
  expect(json, at, '[')
  at = skipSpace(json, at + 1)
  while (json[at] !== ']') {
    const end = endOfValue(json, at)
    texts.push(json.slice(at, end))
    at = skipSpace(json, end)
    if (json[at] === ',') at = skipSpace(json, at + 1)
    else expect(json, at, ']')
  }
  return texts
}

/**
 * On one line. Line breaks occur only as white space outside of strings, because JSON strings cannot contain them.
 */
export function singleLine(json: string): string {
  return json.replace(/[\r\n]+\s*/g, ' ')
}

/** Indented by two spaces. Every scalar keeps its text. */
export function indented(json: string): string {
  const out: string[] = []
  let depth = 0
  let at = skipSpace(json, 0)
  const newline = () => `\n${'  '.repeat(depth)}`
  while (at < json.length) {
    const character = json[at]!
    if (character === '{' || character === '[') {
      const next = skipSpace(json, at + 1)
      if (json[next] === '}' || json[next] === ']') {
        out.push(character, json[next]!)
        at = next + 1
      } else {
        depth += 1
        out.push(character, newline())
        at += 1
      }
    } else if (character === '}' || character === ']') {
      depth -= 1
      out.push(newline(), character)
      at += 1
    } else if (character === ',') {
      out.push(',', newline())
      at += 1
    } else if (character === ':') {
      out.push(': ')
      at += 1
    } else {
      const end = endOfValue(json, at)
      out.push(json.slice(at, end))
      at = end
    }
    at = skipSpace(json, at)
  }
  return out.join('')
}

export function skipSpace(json: string, from: number): number {
  let at = from
  while (at < json.length && ' \t\r\n'.includes(json[at]!)) at += 1
  return at
}

function expect(json: string, at: number, character: string): void {
  if (json[at] !== character) throw new SyntaxError(`expected ${character} at ${at}`)
}

/** The end of the value that starts at `from`. */
function endOfValue(json: string, from: number): number {
  const first = json[from]
  if (first === undefined) throw new SyntaxError('unexpected end')
  if (first === '"') return endOfString(json, from)
  if (first !== '{' && first !== '[') return endOfScalar(json, from)
  let depth = 0
  let at = from
  while (at < json.length) {
    const character = json[at]!
    at = character === '"' ? endOfString(json, at) : at + 1
    if ('{['.includes(character)) depth += 1
    else if ('}]'.includes(character)) depth -= 1
    if (depth === 0) return at
  }
  throw new SyntaxError('unexpected end')
}

function endOfString(json: string, from: number): number {
  let at = from + 1
  while (at < json.length) {
    if (json[at] === '\\') at += 2
    else if (json[at] === '"') return at + 1
    else at += 1
  }
  throw new SyntaxError('unterminated string')
}

function endOfScalar(json: string, from: number): number {
  let at = from
  while (at < json.length && !',}] \t\r\n:'.includes(json[at]!)) at += 1
  if (at === from) throw new SyntaxError(`unexpected ${json[from]} at ${from}`)
  return at
}
