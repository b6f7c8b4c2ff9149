/** How to send to a pipe, and whether something has come. */
import { useRef, useState } from 'react'
import { useIngestUrl } from '../../data/queries.ts'
import { Code, Notice } from '../../ui/layout.tsx'
import styles from './pipe.module.css'
import { snippets } from './snippets.ts'

export function Snippets({ pipeId, needsKey }: { pipeId: string; needsKey: boolean }) {
  const [at, setAt] = useState(0)
  const tabs = useRef<HTMLDivElement>(null)
  const url = useIngestUrl(pipeId)
  const all = snippets(url, needsKey)
  const shown = all[at]
  const move = (to: number) => {
    const next = (to + all.length) % all.length
    setAt(next)
    tabs.current?.querySelectorAll('button')[next]?.focus()
  }
  return (
    <div className={styles.snippets}>
      <Code label="Address for records" text={url} />
      <div className={styles.tabs} role="tablist" aria-label="Ways to send" ref={tabs}>
        {all.map(({ label }, index) => (
          <button
            key={label}
            type="button"
            role="tab"
            id={`send-tab-${index}`}
            aria-selected={index === at}
            aria-controls="send-panel"
            tabIndex={index === at ? 0 : -1}
            onClick={() => setAt(index)}
            onKeyDown={(event) => {
              if (event.key === 'ArrowRight') move(at + 1)
              if (event.key === 'ArrowLeft') move(at - 1)
            }}
          >
            {label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="send-panel" aria-labelledby={`send-tab-${at}`}>
        {shown === undefined ? null : <Code label={shown.label} text={shown.text} />}
      </div>
    </div>
  )
}

/** Turns by itself when the first record comes. */
export function WaitingForRecords() {
  return (
    <Notice>
      <span className={styles.pulse} aria-hidden="true">
        ●
      </span>{' '}
      Waiting for the first record. Send one with a snippet below; this page shows it within two seconds.
    </Notice>
  )
}
