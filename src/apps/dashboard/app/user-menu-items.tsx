/** The content of the user menu. */
import * as Menu from '@radix-ui/react-dropdown-menu'
import type { ReactNode } from 'react'
import { setTimeStyle, type TimeStyle, timeStyle } from '../data/time-style.ts'
import { Outside, timeZone } from '../ui/text.tsx'
import { setTheme, themes, useTheme } from './theme.ts'
import styles from './user-menu.module.css'

export interface UserMenuProps {
  role: string
  workspace: string
  isOpen: boolean
  onOpen: (isOpen: boolean) => void
  onPassword: () => void
  onSignOut: () => void
  children: ReactNode
}

const timeStyles: readonly [TimeStyle, string][] = [
  ['relative', 'Relative times'],
  ['absolute', `Dates and times (${timeZone})`],
]

export function UserMenuItems(props: UserMenuProps) {
  return (
    <Menu.Root open={props.isOpen} onOpenChange={props.onOpen} modal={false}>
      <Menu.Trigger asChild>{props.children}</Menu.Trigger>
      <Menu.Portal>
        <Menu.Content className={styles.menu} sideOffset={6} align="start">
          <Menu.Label className={styles.label}>
            {props.role} in <Outside text={props.workspace} />
          </Menu.Label>
          <Radios value={useTheme()} options={themes} onValue={setTheme} />
          <Menu.Separator className={styles.separator} />
          <Radios value={timeStyle} options={timeStyles} onValue={setTimeStyle} />
          <Menu.Separator className={styles.separator} />
          <Menu.Item className={styles.item} onSelect={props.onPassword}>
            <span className={styles.tick} />
            Change password
          </Menu.Item>
          <Menu.Item className={styles.item} onSelect={props.onSignOut}>
            <span className={styles.tick} />
            Sign out
          </Menu.Item>
        </Menu.Content>
      </Menu.Portal>
    </Menu.Root>
  )
}

function Radios<Value extends string>({
  value,
  options,
  onValue,
}: {
  value: Value
  options: readonly (readonly [Value, string])[]
  onValue: (value: Value) => void
}) {
  return (
    <Menu.RadioGroup value={value} onValueChange={(next) => onValue(next as Value)}>
      {options.map(([one, words]) => (
        <Menu.RadioItem key={one} value={one} className={styles.item}>
          <span className={styles.tick} aria-hidden="true">
            {value === one ? '✓' : ''}
          </span>
          {words}
        </Menu.RadioItem>
      ))}
    </Menu.RadioGroup>
  )
}
