/** The rows of a query, from the text of the response: parsing it would round large integers. */
import type { TableRows } from './client.ts'
import { elementTexts, valueText } from './json-text.ts'

/** The JSON text of each value, by row. */
export function cellTexts(json: string): string[][] {
  return elementTexts(valueText(json, 'rows') ?? '[]').map(elementTexts)
}

/** Each row as a JSON object. A second column of the same name gets a number: `id`, `id_2`. */
export function rowObjects(columns: TableRows['columns'], rows: readonly string[][]): string[] {
  const keys = uniqueNames(columns.map(({ name }) => name)).map((name) => JSON.stringify(name))
  return rows.map((row) => `{${row.map((cell, index) => `${keys[index]}:${cell}`).join(',')}}`)
}

/** A repeated name gets a number that no other column has. */
export function uniqueNames(names: readonly string[]): string[] {
  const used = new Set(names)
  const seen = new Set<string>()
  return names.map((name) => {
    let unique = name
    for (let number = 2; seen.has(unique); number += 1) {
      const next = `${name}_${number}`
      if (!used.has(next)) unique = next
    }
    seen.add(unique)
    return unique
  })
}

/** The text of a value for a table of people. */
export function shownCell(text: string): string {
  if (text === 'null') return 'NULL'
  if (text.startsWith('"')) return JSON.parse(text)
  return text.startsWith('{') ? blobText(JSON.parse(text)) : text
}

function blobText({ base64 }: { base64: string }): string {
  const padding = /=*$/.exec(base64)![0].length
  return `BLOB of ${(base64.length / 4) * 3 - padding} bytes`
}
