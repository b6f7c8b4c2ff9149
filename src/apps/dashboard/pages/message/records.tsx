/** The first records of a message, as they were sent. */
import { count, counted } from '../../../../platform/quantities.ts'
import type { MessageDetail } from '../../../client/client.ts'
import { elementTexts, indented, valueText } from '../../../client/json-text.ts'
import { Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './message.module.css'

/** `text`: the response with the message, because its records must not pass through a parser. */
export function Records({ body, text }: { body: MessageDetail; text: string }) {
  const records = elementTexts(valueText(text, 'records') ?? '[]')
  return (
    <>
      <Soft>
        {body.truncated
          ? `The first ${count(records.length)} of ${counted(body.records_count, 'record')}, as sent.`
          : 'As sent.'}
      </Soft>
      <div className={styles.records}>
        {records.map((record, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a record is identified by its position in the message
          <details key={index} open={index === 0}>
            <summary>Record {count(index + 1)}</summary>
            <pre className={styles.record}>
              <Outside text={indented(record)} lines />
            </pre>
          </details>
        ))}
      </div>
    </>
  )
}
