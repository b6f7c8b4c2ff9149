/** A field for a new password: the contract's rule is checked here, before the API rejects it. */
import type { ComponentProps } from 'react'
import { TextField } from './controls.tsx'

const shortestPassword = 10

type Props = Pick<ComponentProps<typeof TextField>, 'label' | 'value' | 'onValue' | 'error' | 'optional'> & {
  /** Said after the rule. */
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
