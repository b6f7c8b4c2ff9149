/** Finds a message by its id, which the sender gets in the response to ingest. */
import { useState } from 'react'
import { useLocation } from 'wouter'
import { Button } from '../../ui/controls.tsx'
import { TextField } from '../../ui/fields.tsx'
import styles from './message.module.css'

export function FindMessage() {
  const [text, setText] = useState('')
  const [, go] = useLocation()
  const msgId = text.trim()
  return (
    <form
      className={styles.find}
      onSubmit={(event) => {
        event.preventDefault()
        if (msgId !== '') go(`/messages/${encodeURIComponent(msgId)}`)
      }}
    >
      <TextField label="Find a message" placeholder="msg_id" mono value={text} onValue={setText} />
      <Button type="submit" disabled={msgId === ''}>
        Find
      </Button>
    </form>
  )
}
