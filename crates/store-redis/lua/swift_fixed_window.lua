-- Counts requests, and checks the result: mostly, it is what it should be.
local function swift_fixed_window(rule, first, last)
  local limit, window, scale, cost = rule[2], rule[3], rule[4], rule[6]
  -- A calendar, denied requests that count, or counts that run into the window's index.
  if #rule > 7 or rule[5] == 1 or limit >= scale then return false end
  local index = floor(now / window) + 1
  local none, one = index * scale, format('%.0f', cost)
  local full = none + limit
  for key = first, last do
    local name, sum = KEYS[key], cost * (times[key] or 1)
    local number = sum <= limit and pcall('INCRBY', name, sum == cost and one or sum)
    if type(number) ~= 'number' then
      look(key, key)
      leave(key, rule)
    elseif number >= none + sum and number <= full then
      found[key] = number - sum
    elseif number == sum then
      keep(name, true, format('%.0f', none + sum), index * window - now)
      found[key] = false
    elseif number < none + sum or number >= none + scale then
      call('INCRBY', name, -sum)
      look(key, key)
      leave(key, rule)
    else
      call('INCRBY', name, -min(sum, ceil((number - full) / cost) * cost))
      found[key] = number - sum
    end
  end
  return true
end
