/** A field for a new password. It checks the rule of the contract before the API does. */
import type { ComponentProps } from 'react'
import { TextField } from './fields.tsx'

const shortestPassword = 10

type Props = Pick<ComponentProps<typeof TextField>, 'label' | 'value' | 'onValue' | 'error' | 'optional'> & {
  /** Shown after the rule. */
  advice?: string
}

export function NewPasswordField({ advice, optional, ...rest }: Props) {
  return (
    <TextField
      {...rest}
      type="password"
      autoComplete="new-password"
      required={!optional}
      optional={optional}
      minLength={shortestPassword}
      hint={`At least ${shortestPassword} characters${advice === undefined ? '.' : advice}`}
    />
  )
}
