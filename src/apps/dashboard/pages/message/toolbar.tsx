/** The filters of the messages page. Choices apply at once, texts with Enter or Find. */
import { useEffect, useState } from 'react'
import type { OverviewPipe } from '../../../../contract/overview.ts'
import { conditionIn } from '../../../../contract/record-condition.ts'
import { messageStates } from '../../../../contract/state-words.ts'
import { Button } from '../../ui/controls.tsx'
import { Choice, TextField } from '../../ui/fields.tsx'
import { nameOf } from '../../ui/lane-words.tsx'
import { TimeRange } from '../../ui/time-range.tsx'
import styles from './messages.module.css'
import { type MessageFilters, useSetMessageFilters } from './search.ts'

interface ToolbarProps {
  pipe: OverviewPipe
  pipes: readonly OverviewPipe[]
  filters: MessageFilters
}

export function Toolbar({ pipe, pipes, filters }: ToolbarProps) {
  const set = useSetMessageFilters()
  const [where, setWhere] = useState(filters.where ?? '')
  const [msgId, setMsgId] = useState(filters.msgId ?? '')
  const [isWrong, setWrong] = useState(false)
  // The address can change without this form, for example by Back.
  useEffect(() => setWhere(filters.where ?? ''), [filters.where])
  useEffect(() => setMsgId(filters.msgId ?? ''), [filters.msgId])
  const [wanted, id] = [where.trim(), msgId.trim()]
  const states = messageStates.map((state) => [state, state] as const)
  return (
    <search className={styles.toolbar}>
      <form
        className={styles.filters}
        onSubmit={(event) => {
          event.preventDefault()
          const isCondition = wanted === '' || conditionIn(wanted) !== null
          setWrong(!isCondition)
          if (isCondition) set({ where: wanted || null, msgId: id || null })
        }}
      >
        <Choice
          label="Pipe"
          value={pipe.pipe_id}
          options={pipes.map((one) => [one.pipe_id, one.pipe_name])}
          onValue={(pipeId) => set({ pipeId, laneId: null })}
        />
        <Choice
          label="Lane"
          value={filters.laneId ?? ''}
          options={[['', 'all'], ...pipe.lanes.map((one) => [one.destination_id, nameOf(one)] as const)]}
          onValue={(laneId) => set({ laneId: laneId || null })}
        />
        <Choice
          label="State"
          value={filters.state ?? ''}
          options={[['', 'any'], ...states]}
          onValue={(state) => set({ state: state || null })}
        />
        <TextField
          label="Record"
          placeholder="customer.country=AT"
          mono
          type="search"
          value={where}
          error={isWrong ? 'must be key=value' : undefined}
          onValue={setWhere}
        />
        <TextField
          label="msg_id"
          placeholder="0190b0a0-…"
          mono
          type="search"
          value={msgId}
          onValue={setMsgId}
        />
        <Button type="submit">Find</Button>
      </form>
      <TimeRange of="messages" />
    </search>
  )
}
