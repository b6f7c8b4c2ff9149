/** Request bodies for the APIs of other products. Records keep their original text. Pure. */
import type { StoredMessage } from '../../log/buffer.ts'
import { members, recordPlace, records, stringValue } from '../../log/record-text.ts'

/**
 * Grafana Loki, POST /loki/api/v1/push: one stream, one line per record, at the message's time in ns plus the record's
 * index. A repeated batch has identical entries, which Loki drops.
 */
export function toLokiPush(
  messages: readonly StoredMessage[],
  labels: Readonly<Record<string, string>>,
  pipeName: string,
): Buffer {
  const stream = Object.keys(labels).length === 0 ? { pipe: pipeName } : labels
  const values: [time: string, line: string][] = []
  for (const message of messages) {
    const begin = BigInt(message.receivedMs) * 1_000_000n
    let at = 0
    for (const record of records(message.body))
      values.push([String(begin + BigInt(recordPlace(message, at++))), record.toString('utf8')])
  }
  return Buffer.from(JSON.stringify({ streams: [{ stream, values }] }))
}

/**
 * An incoming webhook of Slack. `{key}` is replaced by the value of a top-level key, or nothing if the record has none.
 */
export function toSlackMessage(record: Buffer, template: string | null): Buffer {
  if (template === null) return slackMessage(escaped(record.toString('utf8')))
  const values = new Map<string, string>()
  for (const { key, value } of members(record)) {
    const literal = value.toString('utf8')
    values.set(stringValue(key.toString('utf8')), literal.startsWith('"') ? stringValue(literal) : literal)
  }
  return slackMessage(template.replace(/\{([^{}]+)\}/g, (_, key: string) => escaped(values.get(key) ?? '')))
}

function slackMessage(text: string): Buffer {
  // Slack rejects an empty message.
  return Buffer.from(JSON.stringify({ text: text.trim() === '' ? '(empty)' : text }))
}

/** Escapes a record's text, which must not become a mention or a link. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
