-- One request to a bucket that is new, or has small numbers and an unchanged rate.
local function swift_token_bucket(rule, first, last)
  local rate, most, most_rest, cost, cost_rest = rule[2], rule[3], rule[4], rule[6], rule[7]
  local cells = {}
  look(first, last)
  for key = first, last do
    local raw, done = found[key], false
    if (not raw or #raw == 11) and (times[key] or 1) == 1 then
      local head, low, rest, its_rate = 0, 0, 0, rate
      if raw then head, low, rest, its_rate = parse('>BI6I2I2', raw) end
      local full_at = head % BEFORE * HIGH + low
      local micros = full_at - now
      if its_rate == rate and (micros < most or (micros == most and rest <= most_rest)) then
        if micros < 0 then micros, rest = 0, 0 end
        micros, rest = micros + cost, rest + cost_rest
        if rest >= rate then micros, rest = micros + 1, rest - rate end
        local later, cell = now + micros, cells[head] or step(floor(head / BEFORE))
        cells[head] = cell
        if micros > most or (micros == most and rest > most_rest) then
          done = true
        elseif head < BEFORE or later - later % cell > full_at or low + later - full_at >= HIGH then
          done = keep_bucket(KEYS[key], rule, now, raw, later, rest, rate)
        else
          done = call('SETRANGE', KEYS[key], '0', pack('>BI6I2', head, low + later - full_at, rest))
        end
      end
    end
    if not done then leave(key, rule) end
  end
  return true
end
