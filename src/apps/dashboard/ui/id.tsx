/** A long id: in full on a wide screen; on a phone its beginning and end, with a button that copies it. */
import { Copy } from './copy.tsx'
import styles from './layout.module.css'

/** Two rows of facts next to each other fit into 390 px. The last characters of UUIDs differ in any case. */
const shownAtEachEnd = 6

export function Id({ id }: { id: string }) {
  return (
    <code>
      <span className={styles.wholeId}>{id}</span>
      <span className={styles.shortId} title={id}>
        {id.slice(0, shownAtEachEnd)}…{id.slice(-shownAtEachEnd)}
      </span>
    </code>
  )
}

export function IdCopy({ id, what }: { id: string; what: string }) {
  return (
    <span className={styles.shortId}>
      <Copy text={id} what={what} />
    </span>
  )
}
