/** Shows the difference between the stored text and the edited one. */
import { changedParts, lineDiff } from '../../../client/line-diff.ts'
import { Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './parked.module.css'

const marks = { same: ' ', removed: '−', added: '+' } as const
const words = { same: '', removed: 'removed: ', added: 'added: ' } as const

export function Diff({ before, after }: { before: string; after: string }) {
  const parts = changedParts(lineDiff(before, after))
  if (parts.length === 0) return <Soft>Only white space differs.</Soft>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and a keyboard must get there
    <pre className={styles.diff} tabIndex={0}>
      {parts.map((part, at) =>
        part === null ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have nothing else
          <span key={at} className={styles.gap}>
            …
          </span>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have nothing else
          <span key={at} className={styles[part.kind]}>
            <span className={styles.mark} aria-hidden="true">
              {marks[part.kind]}
            </span>
            <span className={styles.word}>{words[part.kind]}</span>
            <Outside text={part.text} />
          </span>
        ),
      )}
    </pre>
  )
}
