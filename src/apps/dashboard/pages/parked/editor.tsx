/**
 * An editor for JSON text with line numbers, and faults with line and column. The text is sent unchanged, never
 * parsed and printed.
 */
import { useId, useRef } from 'react'
import type { JsonFault } from '../../../client/json-check.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './parked.module.css'

const fewestLines = 6
const maxLines = 30

export function JsonEditor({
  label,
  value,
  readOnly,
  fault,
  onValue,
}: {
  label: string
  value: string
  readOnly: boolean
  fault: JsonFault | null
  onValue: (value: string) => void
}) {
  const id = useId()
  const text = useRef<HTMLTextAreaElement>(null)
  const numbers = useRef<HTMLPreElement>(null)
  const lines = value.split('\n').length
  const goThere = () => {
    const at = fault === null ? 0 : offsetOf(value, fault)
    text.current?.focus()
    text.current?.setSelectionRange(at, at + 1)
  }
  return (
    <div className={styles.editor}>
      <label htmlFor={id} className={styles.label}>
        {label}
      </label>
      <div className={styles.sheet}>
        <pre ref={numbers} className={styles.numbers} aria-hidden="true">
          {Array.from({ length: lines }, (_, at) => at + 1).join('\n')}
        </pre>
        <textarea
          ref={text}
          id={id}
          className={styles.text}
          rows={Math.min(maxLines, Math.max(fewestLines, lines))}
          wrap="off"
          value={value}
          readOnly={readOnly}
          spellCheck={false}
          autoComplete="off"
          aria-invalid={fault === null ? undefined : true}
          aria-describedby={fault === null ? undefined : `${id}-fault`}
          onChange={(event) => onValue(event.target.value)}
          onScroll={(event) => {
            if (numbers.current !== null) numbers.current.scrollTop = event.currentTarget.scrollTop
          }}
        />
      </div>
      {fault === null ? null : (
        <div className={formStyles.actions}>
          <span id={`${id}-fault`} className={styles.fault} role="status">
            Line {fault.line}, column {fault.column}: <Outside text={fault.message} />
          </span>
          <Button look="plain" onClick={goThere}>
            Go to it
          </Button>
        </div>
      )}
    </div>
  )
}

function offsetOf(text: string, { line, column }: JsonFault): number {
  let at = 0
  for (let before = 1; before < line; before += 1) at = text.indexOf('\n', at) + 1
  return at + column - 1
}
